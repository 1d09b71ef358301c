/**
 * The log of one container in CRI format: `<RFC 3339 time> <stream> <F|P> <line>`.
 *
 * Splits bytes into lines. Invariants: a line longer than the limit is split into `P` pieces followed by an `F`; an
 * unterminated rest at the end of a stream is a `P`; a full disk never blocks the container, its lines are lost.
 */
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { nowNanos, rfc3339Nano } from '../clock.ts';

/** Bytes of one piece: containerd's `max_container_log_line_size`, so readers need no larger buffer. */
const MAX_LINE_BYTES = 16 * 1024;

const NEWLINE = 10;
const LOG_MODE = 0o640;
const DIRECTORY_MODE = 0o755;

export type StreamName = 'stdout' | 'stderr';

/** Turns the bytes of one stream into log entries. */
export class LineSplitter {
  readonly #stream: StreamName;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: StreamName) {
    this.#stream = stream;
  }

  /** The entries completed by these bytes; the unfinished rest is kept. */
  push(bytes: Buffer): Buffer {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const entries: Buffer[] = [];
    let start = 0;
    for (let end = all.indexOf(NEWLINE); end >= 0; end = all.indexOf(NEWLINE, start)) {
      start = this.#cut(all, start, end, entries);
      entries.push(this.#entry('F', all.subarray(start, end)));
      start = end + 1;
    }
    start = this.#cut(all, start, all.length, entries);
    this.#rest = Buffer.from(all.subarray(start));
    return Buffer.concat(entries);
  }

  /** At the end of the stream an unterminated rest is a partial line. */
  end(): Buffer {
    const rest = this.#rest;
    this.#rest = Buffer.alloc(0);
    return rest.length === 0 ? rest : this.#entry('P', rest);
  }

  #cut(all: Buffer, from: number, end: number, entries: Buffer[]): number {
    let start = from;
    for (; end - start > MAX_LINE_BYTES; start += MAX_LINE_BYTES) {
      entries.push(this.#entry('P', all.subarray(start, start + MAX_LINE_BYTES)));
    }
    return start;
  }

  #entry(tag: 'F' | 'P', line: Buffer): Buffer {
    return Buffer.concat([Buffer.from(`${rfc3339Nano(nowNanos())} ${this.#stream} ${tag} `), line, Buffer.from('\n')]);
  }
}

/** The log file; without a path every line is dropped, as CRI specifies. */
export class LogFile {
  readonly #path: string;
  #fd: number | undefined;

  constructor(path: string) {
    this.#path = path;
    this.reopen();
  }

  /** After a rotation, continues in a new file of the same name; in the old file if the new file cannot be opened. */
  reopen(): void {
    if (this.#path === '') return;
    mkdirSync(dirname(this.#path), { recursive: true, mode: DIRECTORY_MODE });
    const next = openSync(this.#path, 'a', LOG_MODE);
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = next;
  }

  write(entries: Buffer): void {
    if (this.#fd === undefined) return;
    try {
      for (let written = 0; written < entries.length; ) written += writeSync(this.#fd, entries, written);
    } catch {
      // The error is ignored: the container must go on, and the next write may find space again.
    }
  }
}
