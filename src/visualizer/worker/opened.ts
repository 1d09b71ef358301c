/**
 * The source of a journal that is opened: run again turn by turn, beside the questions of the page.
 *
 * Invariants: a stretch of work is at most {@link SLICE_MS} long; what is wrong with the journal is a note, and what
 * was read before it is shown.
 */
import type { ActorDetail } from '../../actors/server/visualizer/protocol.ts';
import { sizeText } from '../words.ts';
import type { Execution } from './execution.ts';
import type { Model, Source } from './model.ts';
import type { HealthRow, HealthView, StartView } from './reports.ts';
import type { Other } from './requests.ts';
import { pause } from './search.ts';

type Engine = typeof import('./engine.ts');

/** Long enough that passing the turn costs little, short enough that no one waits for an answer. */
const SLICE_MS = 30;

const FROM_RECORDS = 'What is shown after that is from the records; contexts of actors are not in them.';

/** A text with the names of files as their folder has them: those of the worker are its own. */
export const withoutFolders = (text: string): string => text.replaceAll(/\/(?:shown|other)\//g, '');

export class Opened implements Source {
  readonly #engine: Engine;
  readonly #execution: Execution;
  readonly #incarnations: readonly string[];
  readonly #start: () => StartView;
  readonly #model: Model;
  #isClosed = false;
  #isRead = false;
  #tookMs = 0;

  constructor(engine: Engine, opened: ReturnType<Engine['openJournal']>, model: Model) {
    this.#engine = engine;
    this.#execution = opened.execution;
    this.#incarnations = opened.incarnations;
    this.#start = opened.start;
    this.#model = model;
    const { header } = this.#execution.journal;
    model.started = header.t;
    model.root = 'kubelet';
  }

  /** Runs to the end; `onProgress` after each stretch, and the next one begins when the page has its `answers`. */
  async run(onProgress: () => void, answers: () => Promise<void>): Promise<void> {
    const beganMs = performance.now();
    const turns = this.#execution.run();
    for (let done = false; !done && !this.#isClosed; ) {
      const end = performance.now() + SLICE_MS;
      do {
        const next = turns.next();
        done = next.done === true;
        if (!next.done) this.#model.take(next.value);
      } while (!done && performance.now() < end);
      onProgress();
      await pause();
      await answers();
    }
    this.#isRead = true;
    this.#tookMs = performance.now() - beganMs;
    this.#model.changed.phases = true;
    this.#model.changed.pods = true;
    onProgress();
  }

  facts(): ReturnType<Source['facts']> {
    const { header } = this.#execution.journal;
    const { recordedFrom } = this.#execution;
    const note = this.#note();
    return {
      connection: 'journal',
      incarnation: header.incarnation,
      node: header.node,
      root: 'kubelet',
      now: this.#model.t,
      runs: true,
      incarnations: this.#incarnations,
      ...(this.#isRead ? {} : { isReading: true }),
      ...(recordedFrom === undefined ? {} : { recordedFrom }),
      ...(note === undefined ? {} : { note }),
    };
  }

  /** Which records are missing at the end, or known from the journal alone, and why. */
  #note(): string | undefined {
    const note = this.#fault();
    return note === undefined ? undefined : withoutFolders(note);
  }

  #fault(): string | undefined {
    const { report, error, journal, recordedFrom } = this.#execution;
    if (error !== undefined) {
      return recordedFrom === undefined
        ? `The journal cannot be read further: ${error}`
        : `This build cannot run it again: ${error}. ${FROM_RECORDS}`;
    }
    const { torn } = journal;
    if (report?.divergence) {
      const writer = `Statelet ${journal.header.build.statelet}`;
      const from = `From record ${report.divergence.n} on this build decides otherwise (see statelet replay, or use ${writer}).`;
      return `${from} ${FROM_RECORDS}`;
    }
    return torn ? `The last ${torn.bytes} bytes are not a whole turn and were left out` : undefined;
  }

  phases = async () => this.#execution.phases();
  pods = async () => this.#execution.pods();

  async detail(address: string, at: Parameters<Source['detail']>[1]): Promise<ActorDetail | null> {
    const { past, turn, pages } = this.#model;
    const moment = at ?? { view: past.now(address), turn, n: pages.last };
    return moment.view ? this.#execution.detail(moment.view, moment.turn, moment.n) : null;
  }

  changes = (address: string, turn: number) => this.#execution.changes(address, turn);
  step = (address: string, turn: number) => this.#execution.step(address, turn);
  start = async () => this.#start();
  compare = async (other: Other) => this.#engine.compareWith(this.#execution.journal, other);

  async health(): Promise<HealthView> {
    const { report, error, journal } = this.#execution;
    const { pages, turn } = this.#model;
    const isSame = report !== undefined && report.divergence === null && error === undefined;
    const verdict = isSame ? 'same decisions' : this.#isRead ? (this.#note() ?? '') : 'still running';
    const speed = this.#tookMs > 0 ? `${Math.round((pages.size / this.#tookMs) * 1_000)} records a second` : '';
    const rows: HealthRow[] = [
      { name: 'run again', value: verdict, isBad: this.#isRead && !isSame },
      { name: 'speed of that', value: speed },
      { name: 'records', value: String(pages.size) },
      { name: 'turns', value: String(turn + 1) },
      { name: 'segments', value: journal.segments.map((path) => path.slice(path.lastIndexOf('/') + 1)).join(', ') },
      { name: 'written by', value: `Statelet ${journal.header.build.statelet}, XState ${journal.header.build.xstate}` },
      { name: 'kept by the page', value: `${sizeText(pages.packedBytes)} of records, packed` },
    ];
    return {
      rows: rows.filter(({ value }) => value !== ''),
      busiest: pages.busiest(),
      drivers: this.#execution.drivers(),
    };
  }

  close(): void {
    this.#isClosed = true;
  }
}
