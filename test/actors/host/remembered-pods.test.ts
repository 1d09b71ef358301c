/** Pods remembered on disk: complete, readable only by their owner, and never outside of their folder. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rememberingPorts } from '../../../src/actors/host/soft-state.ts';
import { openedPod, sealedPod } from '../../../src/actors/pod-values.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import type { RememberedPod } from '../../../src/machines/model/operations/host.ts';
import { perform } from '../../support/host-ports.ts';

let directory: string;
beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), 'statelet-pods-')), 'pods');
});
afterEach(() => rmSync(join(directory, '..'), { recursive: true, force: true }));

const vault = new Vault(Buffer.alloc(32, 1));
const remembered: RememberedPod = { pod: { metadata: { name: 'web' } }, objects: { 'ConfigMap/default/c': null } };
const save = (uid: string, pod: RememberedPod | null) =>
  perform(rememberingPorts(vault)['host.savePod'], { directory, uid, remembered: pod });
const load = async (by = vault) => (await perform(rememberingPorts(by)['host.loadPods'], { directory })).pods;

describe('pods that are remembered', () => {
  it('are read as they were written, by their owner alone', async () => {
    await save('u1', remembered);
    await save('u2', remembered);
    expect(await load()).toEqual([remembered, remembered]);
    expect(statSync(join(directory, 'u1.json')).mode & 0o777).toBe(0o600);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
  });

  it('are forgotten, also twice', async () => {
    await save('u1', remembered);
    writeFileSync(join(directory, 'u1.json.tmp'), 'half');
    await save('u1', null);
    await save('u1', null);
    expect(await load()).toEqual([]);
    expect(readdirSync(directory)).toEqual([]);
  });

  it('leave no half-written file where one cannot be written', async () => {
    mkdirSync(join(directory, 'u1.json'), { recursive: true });
    await expect(save('u1', remembered)).rejects.toThrow('EISDIR');
    expect(readdirSync(directory)).toEqual(['u1.json']);
  });

  it('are none where there is no folder', async () => {
    expect(await load()).toEqual([]);
  });

  it('are what can be read; damage costs nothing else', async () => {
    await save('u1', remembered);
    writeFileSync(join(directory, 'a.json'), '{"pod":');
    writeFileSync(join(directory, 'b.json'), '7');
    writeFileSync(join(directory, 'c.json'), 'null');
    writeFileSync(join(directory, 'u3.json.tmp'), 'half');
    expect(await load()).toEqual([remembered]);
  });

  it.each(['../x', '', '.', 'a/b', 'x'.repeat(200)])('have uids, and %j is none', async (uid) => {
    await expect(save(uid, remembered)).rejects.toThrow('is no uid of a pod');
  });

  it('have the values that people wrote into them under the node’s key, and are none where it is another one', async () => {
    const containers = [{ name: 'c', env: [{ name: 'A', value: 'canary-variable' }] }];
    const pod = sealedPod({ metadata: { name: 'web' }, spec: { containers } }, vault);
    await save('u1', { ...remembered, pod });
    expect(readFileSync(join(directory, 'u1.json'), 'utf8')).not.toMatch(/canary|Y2FuYXJ5/);
    const restarted = new Vault(Buffer.alloc(32, 1));
    const [loaded] = await load(restarted);
    expect(loaded!.pod).toEqual(pod);
    expect(JSON.stringify(openedPod(loaded!.pod, restarted))).toContain('canary-variable');
    expect(await load(new Vault(Buffer.alloc(32, 2)))).toEqual([]);
  });

  describe('with a token', () => {
    const VALUE = 'canary-of-a-token';
    const token = () => ({
      kind: 'Token' as const,
      namespace: 'default',
      name: 'default',
      version: '1',
      data: { token: { text: vault.seal(VALUE) }, expires: { text: '2026-11-21T00:00:00Z' } },
    });
    const withToken = () => ({ ...remembered, objects: { ...remembered.objects, 'Token/default/3607:': token() } });

    it('have it on disk under the node’s key, and give the handle back', async () => {
      const pod = withToken();
      await save('u1', pod);
      const text = readFileSync(join(directory, 'u1.json'), 'utf8');
      expect(text).not.toMatch(/canary|Y2FuYXJ5|§/);
      const restarted = new Vault(Buffer.alloc(32, 1));
      const [loaded] = await load(restarted);
      expect(loaded).toEqual(pod);
      expect(restarted.open(token().data.token.text)).toBe(VALUE);
    });

    it('have none where the key is another one, or the token is damaged', async () => {
      await save('u1', withToken());
      expect(await load(new Vault(Buffer.alloc(32, 2)))).toEqual([remembered]);
      const file = join(directory, 'u1.json');
      writeFileSync(file, readFileSync(file, 'utf8').replace(/"\$wrapped":"..../, '"$wrapped":"AAAA'));
      expect(await load()).toEqual([remembered]);
    });
  });
});
