/**
 * Today's machines on some of a journal's inputs. An input is found by what it is about, not by its number, because the
 * numbers are those of a longer story.
 */

import { jsonCopy } from '../../kernel/json.ts';
import { Kernel } from '../../kernel/kernel.ts';
import type { HeaderRecord, InputRecord, KernelRecord } from '../../kernel/records.ts';
import type { Unnumbered } from '../../kernel/turn-recorder.ts';
import type { AnyStateMachine } from '../../kernel/xstate.ts';

export class Player {
  /** Every record so far, as a reader of a journal gets it. */
  readonly records: KernelRecord[] = [];
  readonly kernel: Kernel;
  private made: readonly KernelRecord[] = [];

  constructor(machine: AnyStateMachine, { n: _n, k: _k, t, ...header }: HeaderRecord) {
    const sink = {
      wantsCheckpoint: false,
      append: (record: KernelRecord) => void this.records.push(jsonCopy(record)),
      commit: () => {},
      whenDurable: () => {},
      writeCheckpoint: () => {},
      close: () => Promise.resolve(),
    };
    this.kernel = new Kernel({
      machine,
      header,
      sink,
      onTurn: (records) => void (this.made = records),
      onStopped: () => {},
    }).boot(t);
  }

  /** The records of the turn in which nothing but the start happens. */
  get firstTurn(): readonly KernelRecord[] {
    return this.made;
  }

  /** The records of the turn; undefined when no actor waits for this input. */
  take(record: InputRecord): readonly KernelRecord[] | undefined {
    const draft = this.draftOf(record);
    if (!draft) return undefined;
    this.kernel.input(draft);
    return this.made;
  }

  private draftOf({ n: _n, ...draft }: InputRecord): Unnumbered<InputRecord> | undefined {
    if (draft.k === 'in') return this.kernel.snapshotOf(draft.to) === undefined ? undefined : draft;
    if (draft.k === 'timer') {
      const timers = this.kernel.timers
        .list()
        .filter(({ target, event }) => target === draft.at && event.type === draft.event);
      const [next] = timers.toSorted((one, other) => one.due - other.due);
      return next && { ...draft, id: next.id };
    }
    const named = this.kernel.outbox.list().filter(({ name }) => name === draft.name);
    const request = named.find(({ at }) => at === draft.at) ?? (named.length === 1 ? named[0] : undefined);
    return request && { ...draft, id: request.id, at: request.at };
  }
}
