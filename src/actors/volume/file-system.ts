/**
 * The file system of a disk: created on a blank disk, checked on every other one, before it is mounted.
 *
 * Invariants: a disk with content is never formatted; a program that hangs on a disk that does not answer is abandoned.
 *
 * Upstream: k8s.io/mount-utils (`SafeFormatAndMount`).
 */
import { OperationError } from '../../kernel/json.ts';
import { type Ending, runKillable } from '../host/killable.ts';
import { pairsOf } from '../stats/kernel-text.ts';

/** The timeout of mkfs and fsck, which take minutes on a large disk. */
const TOOL_TIMEOUT_MS = 30 * 60_000;
/** Exit codes: blkid found nothing; fsck could not repair the file system. */
const BLKID_NOTHING = 'exit status 2';
const FSCK_UNCORRECTED = 'exit status 4';

/** How the disk will be mounted; `ro` among the options forbids to change it. */
interface WantedMount {
  readonly type: string;
  readonly target: string;
  readonly options: readonly string[];
}

/** Runs a program of the system by its name. */
export type RunTool = (name: string, argv: readonly string[], timeoutMs: number) => Promise<Ending>;

const runTool: RunTool = (name, argv, timeoutMs) => runKillable(name, argv, { timeoutMs });

/** Creates a file system on a blank device, or checks the existing file system. */
export async function prepareFileSystem(
  device: string,
  { type, target, options }: WantedMount,
  run: RunTool = runTool,
): Promise<void> {
  const isReadOnly = options.includes('ro');
  if ((await formatOf(device, run)) !== '') {
    if (!isReadOnly) await check(device, run);
    return;
  }
  if (isReadOnly) {
    throw failure(`cannot mount unformatted disk ${device} as we are manipulating it in read-only mode`);
  }
  const forced = type === 'ext3' || type === 'ext4' ? ['-F', '-m0'] : type === 'xfs' ? ['-f'] : [];
  const { status, output } = await run(`mkfs.${type}`, [...forced, device], TOOL_TIMEOUT_MS);
  if (status === '') return;
  const [given, wanted, place] = [device, type, target].map((text) => JSON.stringify(text));
  const list = options.map((option) => JSON.stringify(option)).join(' ');
  throw failure(
    `format of disk ${given} failed: type:(${wanted}) target:(${place}) options:([${list}]) ` +
      `errcode:(${status}) output:(${output}) `,
  );
}

const failure = (message: string): OperationError => new OperationError(message, { code: 'EIO', retriable: true });

/** The type of the file system on a device; `''` for a blank device. A table of partitions counts as content. */
async function formatOf(device: string, run: RunTool): Promise<string> {
  const argv = ['-p', '-s', 'TYPE', '-s', 'PTTYPE', '-o', 'export', device];
  const { status, output } = await run('blkid', argv, TOOL_TIMEOUT_MS);
  if (status === BLKID_NOTHING) return '';
  if (status !== '') throw failure(`failed to get disk format of disk ${device}: ${status}`);
  const found = pairsOf(output.split('\n'));
  return found.get('TYPE') ?? (found.has('PTTYPE') ? 'unknown data, probably partitions' : '');
}

/** A missing fsck, and any result but errors that it could not correct, does not prevent the mount, as upstream. */
async function check(device: string, run: RunTool): Promise<void> {
  const { status, output, isAbandoned, isKilled } = await run('fsck', ['-a', device], TOOL_TIMEOUT_MS);
  if (isAbandoned || isKilled) throw failure(`fsck of ${device} did not end: ${status}`);
  if (status !== FSCK_UNCORRECTED) return;
  throw failure(`'fsck' found errors on device ${device} but could not correct them: ${output}`);
}
