/**
 * Holds a block device open as long as a pod has it, as every kubelet does: a loop device on the file that it is bound
 * to. A device that nobody holds may be taken away, and another may come under its number.
 *
 * Invariant: it outlives this process; the next agent finds it by the name of the file.
 * Upstream: pkg/volume/util/volumepathhandler/volume_path_handler_linux.go.
 */
import { readdir, readFile } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { runCommand } from '../host/commands.ts';

const DEVICES = '/sys/block';

/** Once. */
export async function holdDevice(path: string): Promise<void> {
  if ((await holderOf(path)) === null) await losetup(`AttachFileDevice failed for path ${path}`, '-f', path);
}

/** Nothing there is fine. */
export async function letGoDevice(path: string): Promise<void> {
  const holder = await holderOf(path);
  if (holder !== null) await losetup(`DetachFileDevice failed for path ${path}`, '-d', holder);
}

async function holderOf(path: string): Promise<string | null> {
  const names = await readdir(DEVICES).catch(() => []);
  for (const name of names.filter((each) => each.startsWith('loop'))) {
    const backing = await readFile(`${DEVICES}/${name}/loop/backing_file`, 'utf8').catch(() => '');
    if (backing.trimEnd() === path || backing.trimEnd() === `${path} (deleted)`) return `/dev/${name}`;
  }
  return null;
}

async function losetup(what: string, ...args: readonly string[]): Promise<void> {
  try {
    await runCommand('losetup', args);
  } catch (error) {
    const { message } = error as OperationError;
    throw new OperationError(`${what}: ${message}; this node needs losetup and loop devices`, { retriable: true });
  }
}
