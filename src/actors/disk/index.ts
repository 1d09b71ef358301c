/**
 * The operations `disk.*`: disks of iSCSI targets and of Fibre Channel networks.
 *
 * Invariants: disks never wait for each other, except for the login to one target; a disk is detached only when no path
 * of the node leads to it any more.
 */
import { rmdir } from 'node:fs/promises';
import { isSecretHandle, type Vault } from '../../kernel/journal/secrets.ts';
import type { InputOf, Ports } from '../../kernel/operation.ts';
import type { diskOperations } from '../../machines/model/operations/disk.ts';
import type { Content } from '../../machines/model/operations/volume.ts';
import { withoutTexts } from '../cri/secrets.ts';
import { ignoring, inParent } from '../host/root-folder.ts';
import { mounter } from '../volume/mounter.ts';
import { attachFC, detachFC, detachFCBlock } from './fibre-channel.ts';
import { attachISCSI, detachISCSI } from './iscsi.ts';
import { type DiskMachine, exists, failed, THIS_MACHINE } from './machine.ts';
import { mountDevice, mountedDisk, setUp, tearDown, unmount } from './mounts.ts';

type Operations = typeof diskOperations;

export interface DiskOptions {
  /** Opens the handles sealed by other ports. */
  readonly vault: Vault;
  /** Absent: this one. */
  readonly machine?: DiskMachine;
}

export function diskPorts({ vault, machine = THIS_MACHINE }: DiskOptions): Ports<Operations> {
  const tools = mounter();
  return {
    'disk.attach': ({ input, signal }) => attach(input, { vault, machine }, signal),
    'disk.mountDevice': ({ input, signal }) => mountDevice(input, machine, signal),
    'disk.detach': ({ input, signal }) => detach(input, machine, signal),
    'disk.setUp': ({ input }) => setUp(input, tools),
    'disk.tearDown': ({ input }) => tearDown(input, tools, machine),
  };
}

async function attach(
  { root, directory, source, secrets: sealed }: InputOf<Operations['disk.attach']>,
  { vault, machine }: Required<DiskOptions>,
  signal: AbortSignal,
): Promise<{ device: string }> {
  if (source.kind === 'fc') return { device: await attachFC(source, machine) };
  const secrets = new Map(Object.entries(sealed).map(([key, content]) => [key, textOf(content, vault)]));
  try {
    return { device: await attachISCSI({ root, directory }, { machine, disk: source, secrets, signal }) };
  } catch (error) {
    throw withoutTexts(error, [...secrets.values()]);
  }
}

function textOf(content: Content, vault: Vault): string {
  const value = 'text' in content ? content.text : content.base64;
  const opened = isSecretHandle(value) ? vault.open(value) : value;
  return 'text' in content ? opened : Buffer.from(opened, 'base64').toString('utf8');
}

async function detach(
  { root, directory, kind, isBlock }: InputOf<Operations['disk.detach']>,
  machine: DiskMachine,
  signal: AbortSignal,
): Promise<null> {
  const { device, others } = isBlock ? { device: '', others: [] } : await mountedDisk(root, directory);
  if (others.length > 0) {
    throw failed(
      `the device mount path ${JSON.stringify(directory)} is still mounted by other references [${others.join(' ')}]`,
    );
  }
  if (!isBlock) await unmount(root, directory, machine);
  if (kind === 'iscsi') {
    if (await exists(directory)) await detachISCSI({ root, directory }, isBlock, machine, signal);
    return null;
  }
  if (isBlock && (await exists(directory))) await detachFCBlock(directory, machine, signal);
  if (device !== '') await detachFC(device, machine, signal);
  await inParent(root, directory, (path) => rmdir(path).catch(ignoring('ENOENT')));
  return null;
}
