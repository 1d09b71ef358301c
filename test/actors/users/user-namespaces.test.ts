/** Ids for user namespaces: upstream's files, one range for each pod, never one that is in use. */
import { chmodSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type UserNamespaceOptions, userNamespacePorts } from '../../../src/actors/users/user-namespaces.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

const UNIT = 65_536;
/** The last range of all. */
const MANY = 2 ** 32 - UNIT;

async function node(options: UserNamespaceOptions = {}) {
  const root = await temporaryFolder();
  const ports = userNamespacePorts({ passwd: join(root, 'passwd'), ...options });
  const map = (uid: string, more: { idsPerPod?: number; maxPods?: number } = {}) => {
    mkdirSync(join(root, 'pods', uid), { recursive: true });
    return perform(ports['users.map'], { root, uid, idsPerPod: UNIT, maxPods: 3, ...more });
  };
  const file = (uid: string) => join(root, 'pods', uid, 'userns');
  return { root, map, file };
}

describe('ids for pods', () => {
  it('are a range of its own for each, the same after a restart, and free again when the pod is gone', async () => {
    const { map, file } = await node();
    const mapped = await Promise.all(['a', 'b', 'c'].map((uid) => map(uid)));
    expect(mapped.map(({ hostId }) => hostId)).toEqual([UNIT, 2 * UNIT, 3 * UNIT]);
    expect(JSON.parse(readFileSync(file('b'), 'utf8'))).toEqual({
      uidMappings: [{ hostId: 2 * UNIT, containerId: 0, length: UNIT }],
      gidMappings: [{ hostId: 2 * UNIT, containerId: 0, length: UNIT }],
    });
    expect(statSync(file('b')).mode & 0o777).toBe(0o600);
    expect(await map('b')).toEqual({ hostId: 2 * UNIT, length: UNIT });
    rmSync(file('b'));
    expect(await map('d')).toEqual({ hostId: 2 * UNIT, length: UNIT });
  });

  it.each([
    ['nonsense', 'it is not JSON'],
    ['{}', 'it must hold one mapping'],
    ['{"uidMappings":[{"hostId":0,"containerId":1,"length":1}],"gidMappings":[]}', 'should be identical'],
    [
      '{"uidMappings":[{"hostId":0,"containerId":1,"length":1}],"gidMappings":[{"hostId":0,"containerId":1,"length":1}]}',
      'UID 0 must be mapped',
    ],
  ])('are given to nobody while a file holds %s', async (content, why) => {
    const { map, file } = await node();
    await map('a');
    writeFileSync(file('a'), content);
    await expect(map('b')).rejects.toThrow(`user namespace: invalid mappings file of pod a: `);
    await expect(map('b')).rejects.toThrow(why);
  });

  it('are not read through a link', async () => {
    const { root, map, file } = await node();
    await map('a');
    writeFileSync(join(root, 'elsewhere'), readFileSync(file('a')));
    rmSync(file('a'));
    symlinkSync(join(root, 'elsewhere'), file('a'));
    await expect(map('a')).rejects.toMatchObject({ code: 'ELOOP' });
  });

  it('of a pod are refused when the node was set up otherwise meanwhile', async () => {
    const { map } = await node();
    await map('a');
    await expect(map('a', { idsPerPod: 2 * UNIT })).rejects.toThrow('wrong user namespace length 65536');
  });

  it.each([MANY, UNIT])('that another kubelet gave to a pod stay: %i', async (hostId) => {
    const { map, file } = await node();
    await map('a');
    const mappings = [{ hostId, containerId: 0, length: UNIT }];
    writeFileSync(file('a'), JSON.stringify({ uidMappings: mappings, gidMappings: mappings }));
    expect(await map('a')).toEqual({ hostId, length: UNIT });
  });

  it('are within those of the machine, whatever the size of a range', async () => {
    const { map } = await node();
    expect(await map('a', { idsPerPod: 3 * UNIT })).toEqual({ hostId: 3 * UNIT, length: 3 * UNIT });
    const tooMany = 'kubelet user assigned IDs are not enough to support 65536 pods';
    await expect(map('b', { maxPods: UNIT })).rejects.toThrow(tooMany);
  });
});

describe('subordinate ids of the user kubelet', () => {
  async function withUser(output: string, groups = output) {
    const folder = await temporaryFolder();
    const [passwd, getsubids] = [join(folder, 'passwd'), join(folder, 'getsubids')];
    writeFileSync(passwd, 'root:x:0:0::/:/bin/sh\nkubelet:x:999:999::/:/bin/false\n');
    writeFileSync(getsubids, `#!/bin/sh\n[ "$1" = -g ] && printf '%s' '${groups}' || printf '%s' '${output}'\n`);
    chmodSync(getsubids, 0o755);
    return node({ passwd, getsubids });
  }

  it('are where the ranges come from', async () => {
    const { map } = await withUser(`0: kubelet ${8 * UNIT} ${3 * UNIT}\n`);
    expect(await map('a')).toEqual({ hostId: 8 * UNIT, length: UNIT });
    await Promise.all(['b', 'c'].map((uid) => map(uid)));
    await expect(map('d')).rejects.toThrow('could not find an empty slot to allocate a user namespace');
  });

  it('are the only ones that a pod may have', async () => {
    const { map, file } = await withUser(`0: kubelet ${8 * UNIT} ${3 * UNIT}\n`);
    await map('a');
    writeFileSync(file('a'), readFileSync(file('a'), 'utf8').replaceAll(String(8 * UNIT), String(2 * UNIT)));
    await expect(map('a')).rejects.toThrow(`id ${2 * UNIT} is out of range`);
  });

  it.each([
    [`0: kubelet 1000 ${3 * UNIT}`, 'kubelet user assigned ID 1000 is not a multiple of 65536'],
    [`0: kubelet 0 ${3 * UNIT}`, 'kubelet user assigned ID 0 must be greater or equal to 65536'],
    [`0: kubelet ${UNIT} 100`, 'kubelet user assigned IDs length 100 is not a multiple of 65536'],
    [`0: kubelet ${UNIT} ${2 * UNIT}`, 'kubelet user assigned IDs are not enough to support 3 pods'],
    [`0: kubelet ${UNIT} ${UNIT}\n1: kubelet ${3 * UNIT} ${UNIT}`, 'they are not one range'],
  ])('%j are refused', async (output, error) => {
    await expect((await withUser(output)).map('a')).rejects.toThrow(error);
  });

  it('must be the same for groups', async () => {
    const { map } = await withUser(`0: kubelet ${UNIT} ${3 * UNIT}`, `0: kubelet ${2 * UNIT} ${3 * UNIT}`);
    await expect(map('a')).rejects.toThrow('mismatched subuids and subgids for user "kubelet"');
  });

  it('are the usual ones where nothing knows them', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'passwd'), 'kubelet:x:999:999::/:/bin/false\n');
    const { map } = await node({ passwd: join(folder, 'passwd'), getsubids: join(folder, 'none') });
    expect(await map('a')).toEqual({ hostId: UNIT, length: UNIT });
  });
});
