/**
 * The source of an opened journal. It is read first, which shows everything but contexts, and then replayed turn by
 * turn, while requests of the page are answered.
 *
 * Invariants: a slice of work is at most {@link SLICE_MS} long; a fault of the journal is a note, and everything read
 * before it is shown; data from contexts are absent until the replay has reached them.
 */
import type { ActorDetail } from '../../actors/server/visualizer/protocol.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { duration, sizeText } from '../words.ts';
import type { Execution } from './execution.ts';
import type { Model, Source } from './model.ts';
import type { Content } from './node/fs.ts';
import type { HealthRow, HealthView } from './reports.ts';
import type { Other } from './requests.ts';
import { pause } from './search.ts';

type Journals = typeof import('./journals.ts');

/** The code that is loaded when a journal is opened, and after it has been read. */
export interface Loading {
  readonly journals: () => Promise<Journals>;
  readonly machines: () => Promise<typeof import('./execution.ts')>;
}

/** Half a frame: no answer waits longer, and the interruption costs a hundredth of it. */
const SLICE_MS = 8;

const FROM_RECORDS = 'What is shown after that is from the records; contexts of actors are not in them.';

/** A text without the worker's own folders, in which files have other paths than in the user's folder. */
export const withoutFolders = (text: string): string => text.replaceAll(/\/(?:shown|other)\//g, '');

interface Answering {
  /** Called after each stretch of work. */
  readonly onProgress: () => void;
  /** The next slice begins when the page has its answers. */
  readonly answers: () => Promise<void>;
}

export class Opened implements Source {
  readonly #journals: Journals;
  readonly #opened: ReturnType<Journals['openJournal']>;
  readonly #model: Model;
  #execution: Execution | undefined;
  /** Why there are no machines. */
  #missing: string | undefined;
  #isClosed = false;
  #isRead = false;
  #isOver = false;
  #ranMs = 0;

  constructor(journals: Journals, opened: ReturnType<Journals['openJournal']>, model: Model) {
    this.#journals = journals;
    this.#opened = opened;
    this.#model = model;
    model.started = opened.journal.header.t;
    model.root = 'kubelet';
  }

  /** Reads to the end, then loads the machines and replays to the end. */
  async run(machines: Loading['machines'], answering: Answering): Promise<void> {
    const { journal, reading } = this.#opened;
    await this.#inSlices(reading.run(), (records) => this.#model.take(records), answering);
    this.#isRead = true;
    this.#changed(answering);
    try {
      const { Execution } = await machines();
      this.#execution = new Execution(journal);
      const beganMs = performance.now();
      await this.#inSlices(this.#execution.run(), () => {}, answering);
      this.#ranMs = performance.now() - beganMs;
      if (this.#isSame) reading.kernel.ran = this.#execution.kernel;
    } catch (error) {
      this.#missing = messageOf(error);
    }
    this.#isOver = true;
    this.#changed(answering);
  }

  async #inSlices<Turn>(turns: Iterator<Turn>, take: (turn: Turn) => void, { onProgress, answers }: Answering) {
    for (let done = false; !done && !this.#isClosed; ) {
      const end = performance.now() + SLICE_MS;
      do {
        const next = turns.next();
        done = next.done === true;
        if (!next.done) take(next.value);
      } while (!done && performance.now() < end);
      onProgress();
      await pause();
      await answers();
    }
  }

  #changed({ onProgress }: Answering): void {
    Object.assign(this.#model.changed, { phases: true, pods: true });
    onProgress();
  }

  /** The machines have made all decisions of the journal. */
  get #isSame(): boolean {
    const { report, error } = this.#execution ?? {};
    return report?.divergence === null && error === undefined && this.#opened.reading.error === undefined;
  }

  facts(): ReturnType<Source['facts']> {
    const { journal, incarnations } = this.#opened;
    const { incarnation, node } = journal.header;
    const unknownFrom = this.#missing === undefined ? this.#execution?.unknownFrom : 0;
    const note = this.#note();
    return {
      connection: 'journal',
      incarnation,
      node,
      root: this.#model.root,
      now: this.#model.t,
      runs: true,
      incarnations,
      ...(this.#isRead ? {} : { isReading: true }),
      ...(this.#isOver ? {} : { ranTo: this.#execution?.ranTo ?? -1 }),
      ...(unknownFrom === undefined ? {} : { recordedFrom: unknownFrom }),
      ...(note === undefined ? {} : { note: withoutFolders(note) }),
    };
  }

  /**
   * The note about the journal: records that are missing at the end, or known from the journal alone, and why; or that
   * the agent has no recorded end.
   */
  #note(): string | undefined {
    const { error } = this.#opened.reading;
    if (error !== undefined) return `The journal cannot be read further: ${error}`;
    return this.#notRun() ?? this.#end();
  }

  #notRun(): string | undefined {
    const { report, error } = this.#execution ?? {};
    const reason = this.#missing ?? error;
    if (reason !== undefined) return `This build cannot run it again: ${reason}. ${FROM_RECORDS}`;
    if (!report?.divergence) return undefined;
    const writer = `Statelet ${this.#opened.journal.header.build.statelet}`;
    const from = `From record ${report.divergence.n} on this build decides otherwise (see statelet replay, or use ${writer}).`;
    return `${from} ${FROM_RECORDS}`;
  }

  /** The end of the agent as recorded in the journal; undefined if the agent was killed or still runs. */
  #end(): string | undefined {
    const { journal, reading } = this.#opened;
    if (journal.torn) return `The last ${journal.torn.bytes} bytes are not a whole turn and were left out`;
    const { past, root, t, started } = this.#model;
    if (!this.#isRead || past.now(root)?.status !== 'active' || reading.phases().failure) return undefined;
    return `The journal ends at +${duration(t - started)} without an end of the agent: it went on, or was killed`;
  }

  phases = async () => this.#opened.reading.phases();
  pods = async () => this.#opened.reading.pods();

  async detail(address: string, at: Parameters<Source['detail']>[1]): Promise<ActorDetail | null> {
    const { past, turn, pages } = this.#model;
    const moment = at ?? { view: past.now(address), turn, n: pages.last };
    if (!moment.view) return null;
    const { view: actor, n } = moment;
    return this.#execution?.detail(actor, moment.turn, n) ?? { actor, at: n, timers: [] };
  }

  changes = (address: string, turn: number) => this.#execution?.changes(address, turn);
  step = (address: string, turn: number) => this.#execution?.step(address, turn);
  start = async () => this.#opened.start();
  compare = async (other: Other) => this.#journals.compareWith(this.#opened.journal, other);

  async health(): Promise<HealthView> {
    const { journal, reading } = this.#opened;
    const { pages, turn } = this.#model;
    const isBad = this.#isOver && !this.#isSame;
    const soFar = this.#execution ? `up to record ${this.#execution.ranTo} so far` : 'not yet';
    const verdict = this.#isSame ? 'same decisions' : isBad ? (this.#note() ?? '') : soFar;
    const speed = this.#ranMs > 0 ? `${Math.round((pages.size / this.#ranMs) * 1_000)} records a second` : '';
    const rows: HealthRow[] = [
      { name: 'run again', value: verdict, isBad },
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
      drivers: reading.drivers(),
    };
  }

  close(): void {
    this.#isClosed = true;
  }
}

/** The files of the journal that the server of the page has. */
export async function servedFiles(): Promise<ReadonlyMap<string, Content>> {
  const answer = await fetch('../api/journal');
  if (!answer.ok) throw new Error(`the server has no journal: ${answer.status}`);
  const { files }: { readonly files: readonly string[] } = await answer.json();
  const found = new Map<string, Content>();
  for (const name of files) {
    const file = await fetch(`../journal/${name.split('/').map(encodeURIComponent).join('/')}`);
    if (!file.ok) throw new Error(`${name}: ${file.status} ${await file.text()}`);
    found.set(name, await file.blob());
  }
  return found;
}
