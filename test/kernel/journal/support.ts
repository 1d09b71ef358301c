/** A kernel that only makes records, temporary directories, and disks with faults. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type Disk, realDisk } from '../../../src/kernel/journal/disk.ts';
import { type JournalOptions, openJournal } from '../../../src/kernel/journal/open.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import type { JournalWriter } from '../../../src/kernel/journal/writer.ts';
import type { JsonEvent } from '../../../src/kernel/json.ts';
import { FORMAT_VERSION, type JournalRecord, type KernelRecord } from '../../../src/kernel/records.ts';

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'statelet-journal-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Makes the records of turns and keeps those that it gave to the journal. */
export class Recorder {
  readonly records: KernelRecord[] = [];
  readonly journal: JournalWriter;
  private turns = 0;

  constructor(journal: JournalWriter) {
    this.journal = journal;
  }

  /** The header, in the first turn. */
  boot(): this {
    this.append({ k: 'header', ...headerFields, incarnation: this.journal.incarnation } as never);
    return this.end();
  }

  /** One turn: an event, a message, a request, a log line, a state. */
  turn(event: JsonEvent = { type: 'pod.added', name: `pod-${this.turns}` }): this {
    const cause = this.append({ k: 'in', t: 1000 + this.turns, to: 'kubelet', event, via: 'test' } as never);
    this.append({ k: 'message', from: 'kubelet', to: 'kubelet/pods', event: { type: 'told' }, cause } as never);
    const input = { turn: this.turns };
    this.append({ k: 'effect', id: this.turns, at: 'a/b', name: 'cri.version', class: 'query', input, cause } as never);
    const text = `a line\u2028 of "text"\n${'and more '.repeat(40)}`;
    this.append({ k: 'log', at: 'kubelet', level: 'info', text } as never);
    this.append({ k: 'state', at: 'kubelet', value: { sync: { pods: this.turns } } } as never);
    return this.end();
  }

  end(): this {
    this.append({ k: 'end', turn: this.turns++, digest: 'd'.repeat(16) } as never);
    this.journal.commit();
    return this;
  }

  append(fields: Omit<KernelRecord, 'n'>): number {
    const record = { n: this.records.length, ...fields } as KernelRecord;
    this.records.push(record);
    this.journal.append(record);
    return record.n;
  }

  checkpoint(): this {
    this.journal.writeCheckpoint({ n: this.records.length, root: { value: `after ${this.records.length - 1}` } });
    return this;
  }

  durable(): Promise<void> {
    return new Promise((resolve) => this.journal.whenDurable(resolve));
  }
}

const headerFields = {
  t: 1_700_000_000_000,
  version: FORMAT_VERSION,
  seed: 7,
  node: 'node-a',
  bootId: 'boot-1',
  build: { statelet: '0.1.0', node: 'v26', xstate: '5', machines: { kubelet: 'abc' } },
  input: { argv: [] },
};

export function record(directory: string, options: Partial<JournalOptions> = {}): Recorder {
  return new Recorder(openJournal({ directory, durability: 'none', ...options }));
}

export const recordsIn = (path: string, incarnation?: string): JournalRecord[] => [
  ...readJournal(path, incarnation === undefined ? {} : { incarnation }).records,
];

export const filesIn = (directory: string, pattern: RegExp): string[] =>
  readdirSync(directory)
    .filter((name) => pattern.test(name))
    .sort()
    .map((name) => join(directory, name));

export const segmentsOf = (directory: string): string[] => filesIn(directory, /^j-.*\.ndjson(\.zst)?$/);

/** Waits for work of the journal that is outside of the kernel. */
export async function eventually(holds: () => boolean, what: string): Promise<void> {
  for (let waited = 0; !holds(); waited += 5) {
    if (waited > 5000) throw new Error(`never came true: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A disk with room for this number of bytes in all, or with faults on request. */
export class BrokenDisk implements Disk {
  room = Number.POSITIVE_INFINITY;
  failure: string | undefined;
  /** The disk takes what is written and cannot keep it. */
  syncFailure: string | undefined;
  /** The disk creates files and cannot keep their names. */
  namesFailure: string | undefined;
  /** The disk syncs only after this promise. */
  syncEnd: Promise<void> | undefined;
  syncs = 0;

  async open(path: string, flags: string, mode: number): Promise<FileHandle> {
    this.refuse();
    const handle = await realDisk.open(path, flags, mode);
    const write = handle.write.bind(handle) as (...args: unknown[]) => Promise<{ bytesWritten: number }>;
    const truncate = handle.truncate.bind(handle);
    handle.write = (async (bytes: Buffer, offset: number, length: number, position: number) => {
      this.refuse();
      const fits = Math.min(length, this.room);
      if (fits <= 0) throw errno('ENOSPC');
      this.room -= fits;
      return write(bytes, offset, fits, position);
    }) as never;
    handle.truncate = async (length) => {
      const before = (await handle.stat()).size;
      await truncate(length);
      this.room += before - (length ?? 0);
    };
    const sync = handle.sync.bind(handle);
    handle.sync = () => (this.namesFailure === undefined ? sync() : Promise.reject(errno(this.namesFailure)));
    handle.datasync = async () => {
      this.refuse();
      this.syncs += 1;
      await this.syncEnd;
      if (this.syncFailure !== undefined) throw errno(this.syncFailure);
    };
    return handle;
  }

  private refuse(): void {
    if (this.failure !== undefined) throw errno(this.failure);
  }
}

function errno(code: string): Error {
  return Object.assign(new Error(`${code}: as the test says`), { code });
}
