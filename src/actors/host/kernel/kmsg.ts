/**
 * `host.watchOom`: follows the kernel's log and emits an event for each process that the OOM killer killed.
 *
 * Owns: the open log; a small file with the boot and the number of the last reported record.
 * Invariants: a kill is reported once per boot, also across restarts of the agent; records overwritten before they were
 * read are skipped; reading never blocks one of libuv's few threads.
 *
 * Format of a record: the kernel's dev-kmsg (`priority,sequence,microseconds,flags;text`). Meaning of the lines as in
 * cAdvisor's oomparser: an episode begins with `invoked oom-killer:` and ends with the line of the victim.
 */
import { constants, readSync } from 'node:fs';
import { open, readFile, rename, writeFile } from 'node:fs/promises';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { OperationError } from '../../../kernel/json.ts';
import type { Port } from '../../../kernel/operation.ts';
import { codeOf, messageOf } from '../../../kernel/thrown.ts';
import type { hostOperations, OomKill } from '../../../machines/model/operations/host.ts';

/** The size of a read: the kernel returns one record per read, and no record is longer. */
const RECORD_BYTES = 16 * 1_024;
/** The period of reading: waiting for the kernel's log would block a thread. */
const POLL_MS = 1_000;
/** Records read between two turns of the event loop. */
const RECORDS_PER_YIELD = 256;
const OWNER_ONLY = 0o600;

interface LogPosition {
  readonly bootId: string;
  readonly sequence: number;
}

/** Error texts as in Go: `open /dev/kmsg: permission denied`. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'operation not permitted',
  ENOENT: 'no such file or directory',
};

export const watchOom =
  (root: string): Port<(typeof hostOperations)['host.watchOom']> =>
  async ({ input: { path, seenFile }, signal, ...call }) => {
    const log = await openLog(path);
    try {
      call.emit({ type: 'oom.watching' });
      const bootId = (await readFile(`${root}/proc/sys/kernel/random/boot_id`, 'utf8').catch(() => '')).trim();
      let position = await loadPosition(seenFile, bootId);
      const parser = new OomParser();
      for await (const record of records(log.fd, signal)) {
        const kill = parser.next(record.text);
        if (kill === null || record.sequence <= position.sequence || signal.aborted) continue;
        position = { bootId, sequence: record.sequence };
        call.emit({ type: 'oom.killed', ...kill });
        await savePosition(seenFile, position);
      }
    } finally {
      await log.close();
    }
    return null;
  };

async function openLog(path: string) {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = codeOf(error) ?? '';
    throw new OperationError(`open ${path}: ${REASONS[code] ?? messageOf(error)}`, { code });
  }
}

/** All records from the oldest that the kernel keeps, then each new one. */
async function* records(fd: number, signal: AbortSignal) {
  let rest = '';
  let sinceYield = 0;
  while (!signal.aborted) {
    const chunk = readSome(fd);
    if (chunk === '') {
      await sleep(POLL_MS, undefined, { signal }).catch(() => {});
      continue;
    }
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const record = parseRecord(line);
      if (record !== null) yield record;
    }
    sinceYield = (sinceYield + 1) % RECORDS_PER_YIELD;
    if (sinceYield === 0) await setImmediate();
  }
}

const buffer = Buffer.alloc(RECORD_BYTES);

/** The records available now. `EPIPE`: the next record was overwritten; reading continues with the one after it. */
function readSome(fd: number): string {
  for (;;) {
    try {
      return buffer.toString('utf8', 0, readSync(fd, buffer));
    } catch (error) {
      const code = codeOf(error) ?? '';
      if (code === 'EAGAIN') return '';
      if (code !== 'EPIPE')
        throw new OperationError(`the kernel's log cannot be read: ${code}`, { code, retriable: true });
    }
  }
}

async function loadPosition(file: string, bootId: string): Promise<LogPosition> {
  try {
    const position: Partial<LogPosition> = JSON.parse(await readFile(file, 'utf8'));
    if (position.bootId === bootId && Number.isSafeInteger(position.sequence)) return position as LogPosition;
  } catch {
    // On the first start of a boot, or with an unusable file, the kernel's remaining records are reported again.
  }
  return { bootId, sequence: -1 };
}

async function savePosition(file: string, seen: LogPosition): Promise<void> {
  const draft = `${file}.${process.pid}`;
  const saved = writeFile(draft, JSON.stringify(seen), { mode: OWNER_ONLY }).then(() => rename(draft, file));
  await saved.catch(() => {});
}

export interface KernelRecord {
  readonly sequence: number;
  readonly text: string;
}

/** Parses a line of the log; `null` for the fields that follow a record, and for lines of another format. */
export function parseRecord(line: string): KernelRecord | null {
  const found = /^\d+,(\d+),\d+,[^;]*;(.*)$/.exec(line);
  return found ? { sequence: Number(found[1]), text: found[2] ?? '' } : null;
}

const BEGIN = /invoked oom-killer:/;
/** Since Linux 5.0. */
const VERDICT = new RegExp(
  'oom-kill:constraint=([^,]*),nodemask=.*,cpuset=.*,mems_allowed=.*,(?:oom_memcg=([^,]*)|global_oom),' +
    'task_memcg=([^,]*),task=(.*),pid=(\\d+),uid=\\d+',
);
const LEGACY_CGROUPS = /Task in (\S*) killed as a result of limit of (\S*)/;
const LEGACY_VICTIM = /Killed process (\d+)(?:,.*)? \((.+)\)/;

/** Collects the lines of one kill. */
export class OomParser {
  #episode: OomKill | null = null;

  /** The kill that this line completes, or `null`. */
  next(text: string): OomKill | null {
    if (BEGIN.test(text)) {
      this.#episode = { processName: '', pid: 0, container: '/', victimContainer: '/', constraint: '' };
      return null;
    }
    if (this.#episode === null) return null;
    this.#episode = withCgroups(this.#episode, text);
    const kill = verdict(text) ?? legacyVictim(this.#episode, text);
    if (kill !== null) this.#episode = null;
    return kill;
  }
}

function verdict(text: string): OomKill | null {
  const found = VERDICT.exec(text);
  if (!found) return null;
  const [, constraint = '', victimContainer = '/', container = '', processName = '', pid] = found;
  return { processName, pid: Number(pid), container, victimContainer, constraint };
}

function withCgroups(episode: OomKill, text: string): OomKill {
  const found = LEGACY_CGROUPS.exec(text);
  return found ? { ...episode, container: found[1] || '/', victimContainer: found[2] || '/' } : episode;
}

function legacyVictim(episode: OomKill, text: string): OomKill | null {
  const found = LEGACY_VICTIM.exec(text);
  return found ? { ...episode, pid: Number(found[1]), processName: found[2] ?? '' } : null;
}
