/**
 * Volumes of NFS servers for real containers. There is neither a server nor the kernel's client: a program in place of
 * mount(8) mounts a tmpfs, fails, or hangs, like mount.nfs.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exchange } from '../actors/server/exchange.ts';
import { needsMounts } from '../actors/volume/support.ts';
import { eventually, readText, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';
import { writeProgram } from '../support/stand-in.ts';

const containerd = runtimes[1]!;
const { skip } = requirement('containerd', containerd.unavailable);

describe.skipIf(skip || needsMounts)('volumes of NFS servers', () => {
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  let programs: string;
  beforeAll(async () => {
    runtime = await containerd.start();
    node = new ObservedNode(runtime);
    programs = node.file('programs');
    mkdirSync(programs);
    writeProgram(
      join(programs, 'mount'),
      `#!/bin/bash
case "$*" in
*"-t nfs "*) echo "$*" >> ${programs}/calls;;
*) exec /usr/bin/mount "$@";;
esac
case "$*" in
*refusing:*) echo "mount.nfs: access denied by server while mounting refusing:/data" >&2; exit 32;;
*silent:*) sleep 1000 & echo $! > ${programs}/helper; wait;;
esac
target="\${@: -1}"
/usr/bin/mount -t tmpfs -o size=1m server "$target" && mkdir "$target/part" && echo there > "$target/part/file"
`,
    );
    await start();
  });
  afterAll(async () => {
    await node.close();
    await runtime.close();
  });

  const start = () =>
    node.start(['--anonymous-auth=true', '--authorization-mode=AlwaysAllow'], {
      PATH: `${programs}:${process.env['PATH']}`,
    });
  const calls = () => (existsSync(join(programs, 'calls')) ? readText(join(programs, 'calls')).trim().split('\n') : []);
  const mounts = () =>
    readText('/proc/self/mountinfo')
      .split('\n')
      .filter((line) => line.includes(node.directory) && /kubernetes\.io~nfs|volume-subpaths/.test(line));
  function write(name: string, server: string, script: string, volumeMounts: readonly object[]): void {
    const volumes = [{ name: 'v', nfs: { server, path: '/data', readOnly: false } }];
    const pod = shellPod(name, node.image, script, { volumes });
    const [only] = pod.spec.containers;
    node.write(`${name}.json`, { ...pod, spec: { ...pod.spec, containers: [{ ...only, volumeMounts }] } });
  }
  const whole = { name: 'v', mountPath: '/v' };

  it('reach their container, in parts, too, and their usage is told', async () => {
    const part = { name: 'v', mountPath: '/p', subPath: 'part' };
    write('reader', 'fd00::1', `echo read=$(cat /v/part/file),$(cat /p/file); ${SLEEP}`, [whole, part]);
    await eventually('it reads', () => node.containerLog('reader', 'c').includes('read=there,there'));
    expect(calls()).toEqual([expect.stringMatching(/^-t nfs -- \[fd00::1\]:\/data \/.*\/kubernetes\.io~nfs\/v$/)]);
    const volumes = await eventually('it is measured', async () => {
      const { body } = await exchange('GET', '/stats/summary', { port: node.port });
      const { pods } = JSON.parse(body.toString()) as {
        pods: { volume?: { name: string; capacityBytes: number }[] }[];
      };
      return pods.flatMap(({ volume = [] }) => volume.filter(({ name }) => name === 'v'))[0];
    });
    expect(volumes.capacityBytes).toBe(1_048_576);
  });

  it('stay while their agent is killed, and go with their pod', async () => {
    await node.stop('SIGKILL');
    await start();
    await node.running('reader');
    await node.stop('SIGKILL');
    node.remove('reader.json');
    await start();
    await node.gone('reader');
    await eventually('nothing is mounted', () => mounts().length === 0);
    expect(calls()).toHaveLength(1);
  });

  it('of a server that refuses keep their pod waiting, and say why', async () => {
    write('refused', 'refusing', SLEEP, [whole]);
    const text =
      'mount failed: exit status 32\\\\nMounting command: mount\\\\nMounting arguments: -t nfs refusing:/data /';
    await eventually(
      'it says why',
      () => node.log.includes(text) || node.journalText().includes(text.replaceAll('\\\\', '\\')),
    );
    expect(await node.sandboxes('refused')).toBe(0);
    node.remove('refused.json');
  });

  it('of a server that does not answer cost other pods nothing, and their own no time at its end', async () => {
    write('silent', 'silent', SLEEP, [whole]);
    const helper = join(programs, 'helper');
    await eventually('mount(8) waits', () => existsSync(helper));
    write('other', 'server', SLEEP, [whole]);
    await node.running('other');
    node.remove('silent.json');
    await eventually('its mount(8) has ended', () => hasEnded(readFileSync(helper, 'utf8').trim()));
    node.remove('other.json');
    await node.gone('other');
    await eventually('nothing is mounted', () => mounts().length === 0);
  });

  it('the journals verify and replay', async () => {
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
  });
});

const hasEnded = (pid: string): boolean => !existsSync(`/proc/${pid}`) || / Z /.test(readText(`/proc/${pid}/stat`));
