/** The folders of pods, with containers that try to redirect the agent. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { preparePod, removePod } from '../../../src/actors/host/pod-files.ts';
import type { NodeText } from '../../../src/machines/model/operations/host.ts';
import { exchange } from '../../support/host-exchange.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8);

async function node() {
  const folder = await temporaryFolder();
  const root = join(folder, 'kubelet', 'pods');
  const outside = join(folder, 'precious');
  mkdirSync(outside);
  writeFileSync(join(outside, 'data'), 'keep me');
  mkdirSync(root, { recursive: true });
  return {
    root,
    outside,
    pod: join(root, 'uid-1'),
    isPreciousSafe: () => readFileSync(join(outside, 'data'), 'utf8') === 'keep me',
  };
}

const prepare = (
  root: string,
  input: {
    directories?: { path: string; mode: number; numbered?: true }[];
    files?: { path: string; mode: number; content: string | NodeText | null }[];
  },
) => perform(preparePod, { root, directories: input.directories ?? [], files: input.files ?? [] });

it('the numbers of the logs in a folder are reported, if they are requested and a runtime could have written them', async () => {
  const { root } = await node();
  const folder = (name: string) => join(root, name);
  for (const [name, logs] of [
    ['app', ['0.log', '2.log.20260101-000000.gz', '1.log']],
    ['odd', ['3.log.d/x', 'x7.log', '8.log~', '9', '99999999999.log']],
    ['unasked', ['4.log']],
  ] as const) {
    for (const log of logs) {
      mkdirSync(join(folder(name), log, '..'), { recursive: true });
      writeFileSync(join(folder(name), log), '');
    }
  }
  const wanted = { mode: 0o755, numbered: true } as const;
  const directories = [
    { path: folder('app'), ...wanted },
    { path: folder('new'), ...wanted },
    { path: folder('odd'), ...wanted },
    { path: folder('unasked'), mode: 0o755 },
  ];
  expect(await prepare(root, { directories })).toEqual({ nextLogs: { [folder('app')]: 3 } });
  expect(await prepare(root, { directories: directories.slice(1) })).toBeNull();
});

it('folders and files are made with their modes whatever the umask', async () => {
  const { root, pod } = await node();
  await prepare(root, {
    directories: [
      { path: pod, mode: 0o750 },
      { path: `${pod}/volumes/kubernetes.io~empty-dir/v`, mode: 0o777 },
    ],
    files: [
      { path: `${pod}/etc-hosts`, mode: 0o644, content: '127.0.0.1 localhost\n' },
      { path: `${pod}/containers/c/0a1b2c3d`, mode: 0o666, content: null },
    ],
  });
  expect(modeOf(pod)).toBe('750');
  expect(modeOf(`${pod}/volumes/kubernetes.io~empty-dir`)).toBe('750');
  expect(modeOf(`${pod}/volumes/kubernetes.io~empty-dir/v`)).toBe('777');
  expect(modeOf(`${pod}/containers/c/0a1b2c3d`)).toBe('666');
  expect(readFileSync(`${pod}/etc-hosts`, 'utf8')).toBe('127.0.0.1 localhost\n');
});

it('a file of the machine is read when one with its text is written; else what is known stands', async () => {
  const { root, pod } = await node();
  const hosts = join(root, 'hosts');
  const content = { before: '# head\n', file: hosts, known: 'known\n', after: '# tail\n' };
  const written = async () => {
    await prepare(root, { files: [{ path: `${pod}/etc-hosts`, mode: 0o644, content }] });
    return readFileSync(`${pod}/etc-hosts`, 'utf8');
  };
  expect(await written()).toBe('# head\nknown\n# tail\n');
  writeFileSync(hosts, '192.0.2.1 now\n');
  expect(await written()).toBe('# head\n192.0.2.1 now\n# tail\n');
  rmSync(hosts);
  execFileSync('mkfifo', [hosts]);
  expect(await written()).toBe('# head\nknown\n# tail\n');
});

it('doing it twice is doing it once: contents, extra permissions and inodes stay', async () => {
  const { root, pod } = await node();
  const input = {
    directories: [{ path: `${pod}/v`, mode: 0o777 }],
    files: [
      { path: `${pod}/etc-hosts`, mode: 0o644, content: 'a' },
      { path: `${pod}/message`, mode: 0o666, content: null },
    ],
  };
  await prepare(root, input);
  execFileSync('chmod', ['2777', `${pod}/v`]);
  writeFileSync(`${pod}/message`, 'last words');
  const before = statSync(`${pod}/etc-hosts`);
  await prepare(root, input);
  expect(modeOf(`${pod}/v`)).toBe('2777');
  expect(readFileSync(`${pod}/message`, 'utf8')).toBe('last words');
  expect(statSync(`${pod}/etc-hosts`).mtimeMs).toBe(before.mtimeMs);
  await prepare(root, { files: [{ path: `${pod}/etc-hosts`, mode: 0o644, content: 'longer' }] });
  await prepare(root, { files: [{ path: `${pod}/etc-hosts`, mode: 0o644, content: 'b' }] });
  expect(readFileSync(`${pod}/etc-hosts`, 'utf8')).toBe('b');
  expect(statSync(`${pod}/etc-hosts`).ino).toBe(before.ino);
});

it('nothing outside the root is made, written or removed', async () => {
  const { root, outside, isPreciousSafe } = await node();
  for (const path of [
    outside,
    `${root}/../../precious/x`,
    root,
    `${root}/`,
    `${root}/..`,
    '/',
    `${root}x/y`,
    'relative',
    `${root}/a\0b`,
  ]) {
    await expect(prepare(root, { directories: [{ path, mode: 0o777 }] }), path).rejects.toThrow('refusing to touch');
    await expect(prepare(root, { files: [{ path, mode: 0o777, content: 'x' }] }), path).rejects.toThrow(
      'refusing to touch',
    );
    await expect(perform(removePod, { root, paths: [path] }), path).rejects.toThrow('refusing to touch');
  }
  expect(isPreciousSafe()).toBe(true);
  expect(existsSync(root)).toBe(true);
});

it('a symbolic link on the way, or at the end, leads nowhere', async () => {
  const { root, outside, pod, isPreciousSafe } = await node();
  symlinkSync(outside, pod);
  await expect(prepare(root, { files: [{ path: `${pod}/data`, mode: 0o600, content: 'x' }] })).rejects.toThrow(
    '"uid-1" on the way is not a folder',
  );
  await expect(prepare(root, { directories: [{ path: `${pod}/new`, mode: 0o777 }] })).rejects.toThrow(
    'is not a folder',
  );
  await expect(perform(removePod, { root, paths: [`${pod}/data`] })).rejects.toThrow('is not a folder');
  await expect(prepare(root, { directories: [{ path: pod, mode: 0o777 }] })).rejects.toThrow(
    'it exists and is not a folder',
  );
  expect(modeOf(outside)).not.toBe('777');
  unlinkSync(pod);
  mkdirSync(pod);
  symlinkSync(join(outside, 'data'), `${pod}/etc-hosts`);
  await expect(prepare(root, { files: [{ path: `${pod}/etc-hosts`, mode: 0o644, content: 'x' }] })).rejects.toThrow(
    'it exists and is not a regular file',
  );
  expect(isPreciousSafe()).toBe(true);
});

it('a link that is removed does not take its target with it', async () => {
  const { root, outside, pod, isPreciousSafe } = await node();
  mkdirSync(`${pod}/volumes`, { recursive: true });
  symlinkSync(outside, `${pod}/volumes/link`);
  await perform(removePod, { root, paths: [pod] });
  expect(existsSync(pod)).toBe(false);
  expect(isPreciousSafe()).toBe(true);
  symlinkSync(outside, pod);
  await perform(removePod, { root, paths: [pod] });
  expect(lstatSync(pod, { throwIfNoEntry: false })).toBeUndefined();
  expect(isPreciousSafe()).toBe(true);
});

it('a folder exchanged for a link in a loop never lets a file out', async () => {
  const { root, outside, pod, isPreciousSafe } = await node();
  const way = `${pod}/way`;
  mkdirSync(way, { recursive: true });
  const exchanging = new AbortController();
  symlinkSync(outside, `${pod}/trap`);
  const attack = (async () => {
    while (!exchanging.signal.aborted) {
      exchange(way, `${pod}/trap`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  for (let round = 0; round < 300; round++) {
    await prepare(root, { files: [{ path: `${way}/data`, mode: 0o644, content: `round ${round}` }] }).catch(() => {});
    await perform(removePod, { root, paths: [`${way}/data`] }).catch(() => {});
  }
  exchanging.abort();
  await attack;
  expect(isPreciousSafe()).toBe(true);
});

it('a FIFO or a folder under the name of a file does not block', async () => {
  const { root, pod } = await node();
  mkdirSync(`${pod}/folder`, { recursive: true });
  execFileSync('mkfifo', [`${pod}/fifo`]);
  for (const name of ['fifo', 'folder']) {
    await expect(prepare(root, { files: [{ path: `${pod}/${name}`, mode: 0o644, content: 'x' }] })).rejects.toThrow(
      `cannot prepare ${pod}/${name}`,
    );
  }
});

it('the root itself may be behind a link', async () => {
  const { root, pod } = await node();
  renameSync(root, `${root}-real`);
  symlinkSync(`${root}-real`, root);
  await prepare(root, { directories: [{ path: pod, mode: 0o750 }] });
  expect(statSync(`${root}-real/uid-1`).isDirectory()).toBe(true);
});

it('removing what is not there is done', async () => {
  const { root, pod } = await node();
  await expect(perform(removePod, { root, paths: [pod, `${pod}/deep/er`] })).resolves.not.toThrow();
  rmSync(root, { recursive: true });
  await expect(perform(removePod, { root, paths: [pod] })).resolves.not.toThrow();
});

const canMount =
  process.getuid?.() === 0 &&
  (() => {
    try {
      execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  })();

it.skipIf(!canMount)('what is still mounted below the folder is not deleted', async () => {
  const { root, outside, pod, isPreciousSafe } = await node();
  const volume = `${pod}/volumes/a volume`;
  mkdirSync(volume, { recursive: true });
  execFileSync('mount', ['--bind', outside, volume]);
  onTestFinished(() => void execFileSync('umount', [volume]));
  await expect(perform(removePod, { root, paths: [pod] })).rejects.toMatchObject({
    code: 'EBUSY',
    message: expect.stringContaining(`${volume} is still mounted`),
  });
  expect(isPreciousSafe()).toBe(true);
});
