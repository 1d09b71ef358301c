/** Mounts of the root directory: needs root, and a folder of its own for each test. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { hostPorts } from '../../../../src/actors/host/index.ts';
import { parseMounts } from '../../../../src/actors/host/kernel/mounts.ts';
import { systemCalls } from '../../../../src/actors/host/kernel/syscall.ts';
import { mountsBelow } from '../../../../src/actors/volume/mounter.ts';
import { perform, temporaryFolder } from '../../../support/host-ports.ts';
import { needsMounts } from '../../volume/support.ts';

const CHILD = new URL('../../../support/host-child.ts', import.meta.url).pathname;

const mountsOf = (folder: string) =>
  parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).filter(({ point }) => point.startsWith(folder));

/** A folder on a private mount, whatever the mounts of this machine are. */
async function privateFolder(): Promise<string> {
  const folder = await temporaryFolder();
  onTestFinished(() => systemCalls()!.unmount(folder));
  systemCalls()!.mount('tmpfs', folder, 'size=1m');
  execFileSync('mount', ['--make-private', folder]);
  return folder;
}

describe.skipIf(needsMounts)('a folder that is to be shared', () => {
  let root: string;
  let directories: readonly { path: string; mode: number; what: string; shared?: true }[];
  beforeEach(async () => {
    root = join(await privateFolder(), 'root');
    directories = [
      { path: root, mode: 0o750, what: 'root directory', shared: true },
      { path: join(root, 'pods'), mode: 0o750, what: 'pods directory' },
    ];
  });

  it.each(['calls', 'programs'])('becomes a shared mount by %s, once, with what is in it', async (road) => {
    const ports = hostPorts(road === 'calls' ? {} : { system: null });
    mkdirSync(root);
    writeFileSync(join(root, 'file'), 'kept');
    for (const _ of ['once', 'after a restart']) {
      await perform(ports['host.makeDirectories'], { directories });
      expect(mountsOf(root)).toMatchObject([{ point: root, isShared: true }]);
    }
    expect(readFileSync(join(root, 'file'), 'utf8')).toBe('kept');
    expect(existsSync(join(root, 'pods'))).toBe(true);
  });

  it('shows what is mounted below it wherever it is bound', async () => {
    await perform(hostPorts()['host.makeDirectories'], { directories });
    const copy = join(root, '../copy');
    mkdirSync(copy);
    systemCalls()!.bindMount(root, copy);
    systemCalls()!.mount('tmpfs', join(root, 'pods'), 'size=1m');
    writeFileSync(join(root, 'pods/here'), 'seen');
    expect(readFileSync(join(copy, 'pods/here'), 'utf8')).toBe('seen');
  });

  it('keeps what was mounted below it, in the new mount alone', async () => {
    const volume = join(root, 'pods/u1');
    mkdirSync(volume, { recursive: true });
    systemCalls()!.mount('tmpfs', volume, 'size=1m');
    writeFileSync(join(volume, 'secret'), 'kept');
    await perform(hostPorts()['host.makeDirectories'], { directories });
    expect(readFileSync(join(volume, 'secret'), 'utf8')).toBe('kept');
    expect(await mountsBelow(root)).toEqual([volume, root]);
    systemCalls()!.unmount(volume);
    expect(existsSync(join(volume, 'secret'))).toBe(false);
    expect(await mountsBelow(root)).toEqual([root]);
  });

  it('is shared as it is where it is a mount already', async () => {
    mkdirSync(root);
    systemCalls()!.mount('tmpfs', root, 'size=1m');
    await perform(hostPorts()['host.makeDirectories'], { directories });
    expect(mountsOf(root)).toMatchObject([{ point: root, type: 'tmpfs', isShared: true }]);
  });

  it('is refused in the words of the kubelet where mounting is not allowed', () => {
    const input = JSON.stringify({ directories });
    const argv = ['--bounding-set=-sys_admin', '--inh-caps=-sys_admin', process.execPath, CHILD];
    const refused = () => execFileSync('setpriv', [...argv, 'host.makeDirectories', input], { stdio: 'pipe' });
    const text = `error configuring root directory: failed to bind-mount ${root}: operation not permitted`;
    expect(refused).toThrow(text);
  });
});
