/**
 * A journal that is read, without its machines: what the page shows of it by its records alone.
 *
 * Invariants: what is read is shown, whatever comes after it; no record is shown that its turn does not have whole.
 */
import { KernelFeed, shown } from '../../actors/server/visualizer/feed.ts';
import type { DriverView, PhasesView, PodView, ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import type { Journal } from '../../kernel/journal/reader.ts';
import type { GapRecord, JournalRecord, KernelRecord } from '../../kernel/records.ts';
import { RecordedKernel } from './recorded-kernel.ts';

export class Reading {
  /** Why it ended before the journal did. */
  error: string | undefined;
  readonly kernel: RecordedKernel;
  readonly #journal: Journal;
  readonly #onRecord: (record: JournalRecord) => void;
  readonly #feed: KernelFeed;
  private seen: readonly ShownRecord[] = [];

  /** `onRecord` gets each record when it is read. */
  constructor(journal: Journal, onRecord: (record: JournalRecord) => void = () => {}) {
    this.#journal = journal;
    this.#onRecord = onRecord;
    this.kernel = new RecordedKernel(journal.header, journal.checkpoint);
    const onSeen = ({ records }: { readonly records: readonly ShownRecord[] }) => (this.seen = records.map(shown));
    this.#feed = new KernelFeed({ now: () => this.kernel.now, onSeen });
  }

  /** Reads turn after turn, and gives the records of each. */
  *run(): Generator<readonly ShownRecord[]> {
    try {
      for (const turn of this.#turns()) {
        this.kernel.take(turn);
        this.#feed.onTurn(turn, this.kernel);
        yield this.seen;
      }
    } catch (thrown) {
      this.error = thrown instanceof JournalError ? thrown.message : `the page failed: ${String(thrown)}`;
    }
  }

  /** The records of each turn, without marks of those that were left out, up to a gap. */
  *#turns(): Generator<readonly KernelRecord[]> {
    let turn: KernelRecord[] = [];
    for (const record of this.#journal.records) {
      if (record.k === 'gap') {
        if (this.#isBeforeAll(record)) continue;
        this.error = `it was suspended at record ${record.n} (${record.why}), and what was so after that is not known`;
        return;
      }
      this.#onRecord(record);
      if (record.k !== 'dropped') turn.push(record);
      if (record.k !== 'end') continue;
      yield turn;
      turn = [];
    }
  }

  /** A gap up to the checkpoint with which the journal begins. */
  #isBeforeAll({ upto }: GapRecord): boolean {
    return upto !== undefined && upto === this.#journal.checkpoint?.after;
  }

  phases = (): PhasesView => this.#feed.phases();
  pods = (): readonly PodView[] => this.#feed.podList();
  drivers = (): readonly DriverView[] => this.#feed.drivers();
}
