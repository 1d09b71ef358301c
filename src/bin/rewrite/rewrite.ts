/**
 * Rewrites a journal: the machines of this build process its inputs, and their decisions are written by the normal
 * writer, so that checksums, digests and the chain are correct.
 *
 * Invariant: an input that no actor waits for ends the rewrite, because the answer of the world to another request is
 * unknown.
 */
import { type Journal, JournalError, type JournalWriter } from '../../kernel/journal/index.ts';
import { Kernel } from '../../kernel/kernel.ts';
import { Matching } from '../../kernel/matching.ts';
import type { HeaderRecord, InputRecord, JournalRecord, KernelRecord } from '../../kernel/records.ts';
import type { Unnumbered } from '../../kernel/turn-recorder.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';

/** After this many turns the writer gets time to write. */
const TURNS_AT_ONCE = 64;

export interface Changes {
  readonly header?: (header: HeaderRecord) => HeaderRecord;
  readonly input?: (record: InputRecord) => InputRecord;
  /** Receives each turn as in the log, and as produced now. */
  readonly onTurn?: (logged: readonly JournalRecord[], made: readonly KernelRecord[]) => void;
}

/** Closes the writer, also after a failure. */
export async function rewrite(journal: Journal, sink: JournalWriter, changes: Changes): Promise<void> {
  const rewriting = new Rewriting(sink, changes);
  try {
    let turn: JournalRecord[] = [];
    for (const record of journal.records) {
      turn.push(record);
      if (record.k !== 'end') continue;
      rewriting.take(turn);
      turn = [];
      if (record.turn % TURNS_AT_ONCE === 0) await new Promise((done) => setImmediate(done));
    }
  } finally {
    await sink.close();
  }
}

class Rewriting {
  readonly #sink: JournalWriter;
  readonly #changes: Changes;
  readonly #matching = new Matching(() => this.#kernel?.timers.list() ?? []);
  #kernel: Kernel | undefined;
  #newRecords: readonly KernelRecord[] = [];

  constructor(sink: JournalWriter, changes: Changes) {
    this.#sink = sink;
    this.#changes = changes;
  }

  take(turn: readonly JournalRecord[]): void {
    const [first] = turn;
    if (!first) return;
    if (first.k === 'header') this.#kernel = this.#begin(first);
    else if (this.#kernel && isInput(first)) this.#feed(this.#kernel, first);
    else throw this.#unusable(first, 'a turn does not begin with an input');
    this.#matching.inLogNames(turn, this.#newRecords);
    this.#changes.onTurn?.(turn, this.#newRecords);
  }

  #begin(logged: HeaderRecord): Kernel {
    const { n: _n, k: _k, t, ...header } = this.#changes.header?.(logged) ?? logged;
    const { incarnation } = this.#sink;
    return new Kernel({
      machine: kubeletMachine,
      header: { ...header, incarnation },
      sink: this.#sink,
      onTurn: (records) => void (this.#newRecords = records),
      onStopped: () => {},
    }).boot(t);
  }

  #feed(kernel: Kernel, logged: InputRecord): void {
    const { n: _n, ...draft }: InputRecord = this.#matching.today(this.#changes.input?.(logged) ?? logged);
    if (!isAwaited(kernel, draft)) throw this.#unusable(logged, `this build does not wait for ${namesOf(logged)}`);
    kernel.input(draft);
  }

  #unusable({ n }: JournalRecord, why: string): JournalError {
    return new JournalError('unusable', { file: this.#sink.directory, n }, `${why}; record a new journal`);
  }
}

const isInput = (record: JournalRecord): record is InputRecord =>
  record.k === 'in' || record.k === 'timer' || record.k === 'result';

type Draft = Unnumbered<InputRecord>;

function isAwaited(kernel: Kernel, input: Draft): boolean {
  if (input.k === 'result') return kernel.outbox.requestOf(input.id) !== undefined;
  return input.k === 'timer' ? kernel.timers.take(input.id) !== undefined : kernel.snapshotOf(input.to) !== undefined;
}

const namesOf = (record: InputRecord): string =>
  record.k === 'result' ? `the result of ${record.name}` : record.k === 'timer' ? record.event : record.event.type;
