/**
 * Fault 16 for the whole root directory: the file system below it reports an error and becomes read-only while the
 * agent runs, as ext4 does after an error of its disk. Running pods continue; after a repair the node is as before.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loopProblem, needsMounts } from '../actors/volume/support.ts';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const CALL = { timeoutMs: patient(20_000) };
const TIMEOUT_MS = patient(240_000);
const DISK_BYTES = 64 * 1024 * 1024;
/** The exit code of `e2fsck` for repaired errors. */
const REPAIRED = 1;

/** An ext4 on a loop device, with an error on request. */
class Disk {
  readonly #image: string;
  readonly #mountPoint: string;
  #device = '';

  constructor(image: string, mountPoint: string) {
    this.#image = image;
    this.#mountPoint = mountPoint;
    writeFileSync(image, '');
    truncateSync(image, DISK_BYTES);
    execFileSync('mkfs.ext4', ['-q', image]);
    mkdirSync(mountPoint);
  }

  mount(): void {
    this.#device = execFileSync('losetup', ['--find', '--show', this.#image], { encoding: 'utf8' }).trim();
    execFileSync('mount', ['-o', 'errors=remount-ro', this.#device, this.#mountPoint]);
  }

  meetError(): void {
    writeFileSync(`/sys/fs/ext4/${basename(this.#device)}/trigger_fs_error`, '1');
  }

  unmount(): void {
    execFileSync('umount', [this.#mountPoint]);
    execFileSync('losetup', ['--detach', this.#device]);
  }

  repair(): void {
    try {
      execFileSync('e2fsck', ['-f', '-y', this.#image], { stdio: 'pipe' });
    } catch (error) {
      if ((error as { status?: number }).status !== REPAIRED) throw error;
    }
  }
}

const [, containerd] = runtimes;
if (!containerd) throw new Error('containerd is one of the runtimes');
const skips = [requirement('containerd', containerdAvailable()), requirement('loop', loopProblem())];

describe.skipIf(skips.some(({ skip }) => skip) || needsMounts)('a root directory that turns read-only', () => {
  let node: ObservedNode;
  let disk: Disk;
  beforeAll(async () => {
    node = await ObservedNode.on(containerd);
    disk = new Disk(join(node.directory, 'disk.img'), node.rootDir);
    disk.mount();
    await node.start();
    node.write('steady.json', shellPod('steady', node.image, SLEEP));
    await node.running('steady');
  }, TIMEOUT_MS);
  afterAll(async () => {
    for (const name of readdirSync(node.manifests)) node.remove(name);
    await node.stop('SIGKILL');
    await removeSandboxes();
    disk.unmount();
    rmSync(join(node.directory, 'disk.img'));
    await node.close();
  });

  /** Their containers have mounted files of the disk. */
  async function removeSandboxes(): Promise<void> {
    const { items } = await node.client.call('ListPodSandbox', {}, CALL);
    for (const { id } of items) {
      await node.client.call('StopPodSandbox', { pod_sandbox_id: id }, CALL);
      await node.client.call('RemovePodSandbox', { pod_sandbox_id: id }, CALL);
    }
  }

  it(
    'stops neither the agent nor what runs, and each refusal has its reason in the log',
    async () => {
      const before = await node.instances('steady');
      disk.meetError();
      node.write('late.json', shellPod('late', node.image, SLEEP));
      await eventually('the log says why there is no pod', () => /late.*EROFS/.test(node.log), TIMEOUT_MS);
      await eventually('the log says that no journal is kept', () => /journal.*EROFS/i.test(node.log), TIMEOUT_MS);
      expect(await node.healthz()).toBe(true);
      expect(await node.instances('steady')).toEqual(before);
      expect(node.isRunning).toBe(true);
    },
    TIMEOUT_MS,
  );

  it(
    'ends with the agent in order, and after a repair both pods run and each journal replays',
    async () => {
      expect(await node.stop()).toBe(0);
      await removeSandboxes();
      disk.unmount();
      disk.repair();
      disk.mount();
      await node.start();
      for (const name of ['steady', 'late']) await node.running(name);
      await node.stop();
      expect(node.journalFaults()).toEqual([]);
    },
    TIMEOUT_MS,
  );
});
