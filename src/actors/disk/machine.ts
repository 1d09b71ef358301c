/**
 * What disks of storage networks need of this machine: its programs, and the kernel's view of its devices.
 *
 * Invariant: every call that asks a disk or a target is made by a process, with a time limit, and never by a shell.
 */
import { lstat, readdir, readFile, realpath } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { goError } from '../go-errors.ts';
import { type Ending, runKillable } from '../host/killable.ts';
import { ignoring } from '../host/root-folder.ts';

/** The time limit of one call of iscsiadm: it tries to log in eight times, fifteen seconds each. */
export const ISCSIADM_TIMEOUT_MS = 3 * 60_000;
/** The time limit of programs that flush or remove a device, and of the kernel's search for one. */
export const DEVICE_TIMEOUT_MS = 60_000;

export interface DiskMachine {
  /** Where the kernel shows its devices: `/sys` and `/dev`. */
  readonly sys: string;
  readonly dev: string;
  /** A folder of programs, with a slash at its end; empty: those of the system. */
  readonly programs: string;
  /** The pause between two looks for a device. */
  readonly pollMs: number;
}

export const THIS_MACHINE: DiskMachine = { sys: '/sys', dev: '/dev', programs: '', pollMs: 1_000 };

export const run = (
  { programs }: DiskMachine,
  name: string,
  argv: readonly string[],
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Promise<Ending> => runKillable(`${programs}${name}`, argv, options);

export const failed = (message: string): OperationError =>
  new OperationError(message, { code: 'EIO', retriable: true });

/** Names in a folder of the kernel, sorted; none if there is no such folder. */
export const namesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder).catch(ignoring('ENOENT', 'ENOTDIR')))?.toSorted() ?? [];

/** The text of a file of the kernel; `null` if it cannot be read. */
export const textIn = (path: string): Promise<string | null> =>
  readFile(path, 'utf8').then(
    (text) => text.trim(),
    () => null,
  );

export const exists = async (path: string): Promise<boolean> =>
  (await lstat(path).catch(ignoring('ENOENT', 'ENOTDIR'))) !== null;

/** Writes a command to a file of the kernel, which may take as long as its disks: by tee(1). */
export async function writeCommand(machine: DiskMachine, path: string, command: string): Promise<void> {
  await lstat(path).catch((error: unknown) => {
    throw goError('open', path, error);
  });
  const options = { timeoutMs: DEVICE_TIMEOUT_MS, input: command };
  const { status, output } = await runKillable(`${machine.programs}tee`, [path], options);
  if (status !== '') throw failed(`write ${path}: ${status}: ${output.trim()}`);
}

/** The device behind a link, as `/dev/sda`; `null` if there is none. */
export const deviceBehind = (path: string): Promise<string | null> => realpath(path).catch(() => null);

/** The multipath device that a device is a path of, as `/dev/dm-1`; `null` if there is none. */
export async function multipathOf({ sys, dev }: DiskMachine, path: string): Promise<string | null> {
  const device = await deviceBehind(path);
  if (device === null) return null;
  const name = device.slice(device.lastIndexOf('/') + 1);
  if (name.startsWith('dm-')) return device;
  for (const each of await namesIn(`${sys}/block`)) {
    if (each.startsWith('dm-') && (await exists(`${sys}/block/${each}/slaves/${name}`))) return `${dev}/${each}`;
  }
  return null;
}

/** The devices that are paths of a multipath device. */
export async function pathsOf({ sys, dev }: DiskMachine, device: string): Promise<readonly string[]> {
  const name = device.slice(device.lastIndexOf('/') + 1);
  return (await namesIn(`${sys}/block/${name}/slaves`)).map((each) => `${dev}/${each}`);
}

/** Has the kernel forget a device. One that it does not know is no error. */
export async function deleteDevice(machine: DiskMachine, name: string): Promise<void> {
  const path = `${machine.sys}/block/${name}/device/delete`;
  if (await exists(path)) await writeCommand(machine, path, '1');
}
