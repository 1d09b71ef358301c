/**
 * The server thread, as managed by the main thread.
 *
 * Owns the worker: starts it, checks its health, ends it, and restarts it at its {@link RestartDelay}. Invariants: H1
 * when it is lost, its open services fail with the code {@link THREAD_LOST}, after its ports are free again; their
 * owners open them again. H2 it is lost when it throws, when its heap is full, and when it does not answer as many
 * checks as {@link SilenceLimit} allows. H3 it never delays a turn.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { OperationError } from '../../../kernel/json.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import { THREAD_LOST } from '../../../machines/model/operations/server.ts';
import { Channel } from './channel.ts';
import type { QuestionAnswers, ThreadFacts } from './questions.ts';
import type { ServiceName } from './serve.ts';

/** The loss of a thread that ran this long is not due to its start: it is restarted at once. */
const SETTLED_MS = 10_000;
const FIRST_MS = 50;
/**
 * The longest pause: a client that can crash the thread at will causes two starts a second, and the ports are down for
 * at most this long.
 */
const LONGEST_MS = 500;

/** The back-off of restarting a lost thread. Pure, except for its clock. */
export class RestartDelay {
  readonly #now: () => number;
  #startedAt = 0;
  #nextMs = 0;

  /** @param now milliseconds of a clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  started(): void {
    this.#startedAt = this.#now();
  }

  /** Milliseconds until the restart: none for the first loss in a while, then increasing. */
  lost(): number {
    const isSettled = this.#now() - this.#startedAt >= SETTLED_MS;
    const pauseMs = isSettled ? 0 : this.#nextMs;
    this.#nextMs = pauseMs === 0 ? FIRST_MS : Math.min(pauseMs * 2, LONGEST_MS);
    return pauseMs;
  }
}

const CHECK_MS = 1_000;
/** Unanswered checks after which the thread is ended: on a loaded machine a healthy thread may be late. */
const CHECKS_MAX = 5;
/**
 * The same until the thread's first answer, and the maximum after doublings. While a thread loads its program it has
 * read nothing from outside, and a machine that needs more than five seconds for it would never have a server.
 */
const CHECKS_WHILE_LOADING_MAX = 60;

/** A thread that gave this many answers is healthy: ten minutes of them. */
const ANSWERS_OF_HEALTH = 600;

/**
 * The number of checks that a thread may leave unanswered before it is ended: doubled after each thread that was ended,
 * until one is healthy. Pure.
 */
export class SilenceLimit {
  #checksMax = CHECKS_MAX;
  #answers = 0;
  #unanswered = 0;

  started(): void {
    this.#answers = 0;
    this.#unanswered = 0;
  }

  answered(): void {
    this.#unanswered = 0;
    if (++this.#answers === ANSWERS_OF_HEALTH) this.#checksMax = CHECKS_MAX;
  }

  /** Counts a check that is due. Returns the seconds of silence if the thread has to be ended. */
  tooLong(): number | null {
    const max = this.#answers > 0 ? this.#checksMax : CHECKS_WHILE_LOADING_MAX;
    if (++this.#unanswered <= max) return null;
    this.#checksMax = Math.min(2 * this.#checksMax, CHECKS_WHILE_LOADING_MAX);
    return (max * CHECK_MS) / 1_000;
  }
}

/** The heap of the thread: many times the size of the largest answers. */
const LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 16 };

export interface ServerThreadOptions {
  /** The program of the thread, and whether it is bundled. */
  readonly entry: string;
  readonly isBundled: boolean;
  readonly facts: ThreadFacts;
  readonly answers: QuestionAnswers;
  readonly warn: (sentence: string) => void;
}

interface Call {
  readonly input: unknown;
  readonly signal: AbortSignal;
  readonly emit: (item: never) => void;
}

interface Running {
  readonly worker: Worker;
  readonly channel: Channel;
}

export class ServerThread {
  readonly #options: ServerThreadOptions;
  readonly #pace = new RestartDelay();
  readonly #silence = new SilenceLimit();
  #running: Running | undefined;
  #startable: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(options: ServerThreadOptions) {
    this.#options = options;
  }

  /** Starts the thread before it is needed. */
  start(): Running {
    this.#running ??= this.#started();
    return this.#running;
  }

  /** Opens a service of the thread until the signal. Rejects with its error, or with {@link THREAD_LOST}. */
  async open(service: ServiceName, { input, signal, emit }: Call): Promise<null> {
    await this.#startable;
    if (signal.aborted) return null;
    if (this.#isClosed) throw lost('it is closed');
    const { channel } = this.start();
    const onItem = (item: never): void => {
      if (!signal.aborted) emit(item);
    };
    await channel.ask(service, input, { signal, onItem });
    return null;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running?.worker.terminate();
  }

  #started(): Running {
    const { entry, isBundled, facts, answers, warn } = this.#options;
    this.#pace.started();
    const worker = new Worker(entry, { name: 'servers', workerData: { facts, isBundled }, resourceLimits: LIMITS });
    const channel = new Channel(worker, answers);
    let why = '';
    worker.on('error', (error) => (why = messageOf(error)));
    const watch = this.#watched(worker, channel, (problem) => (why = problem));
    worker.once('exit', (code) => {
      clearInterval(watch);
      why ||= `it ended with ${code}`;
      this.#running = undefined;
      if (!this.#isClosed) {
        warn(`the thread of the servers was lost: ${why}`);
        this.#startable = pause(this.#pace.lost(), undefined, { ref: false });
      }
      channel.close(lost(why));
    });
    return { worker, channel };
  }

  /** Ends a thread that does not answer. A check delayed by this thread itself counts only once. */
  #watched(worker: Worker, channel: Channel, stuck: (why: string) => void): NodeJS.Timeout {
    const silence = this.#silence;
    silence.started();
    const check = (): void => {
      const seconds = silence.tooLong();
      if (seconds === null) {
        channel.ask('alive', null).then(
          () => silence.answered(),
          () => {},
        );
        return;
      }
      stuck(`it has not answered for ${seconds} s`);
      void worker.terminate();
    };
    // The first check begins at once: its answer shows that the program is loaded.
    check();
    return setInterval(check, CHECK_MS).unref();
  }
}

const lost = (why: string): OperationError =>
  new OperationError(`the thread of the servers was lost: ${why}`, { code: THREAD_LOST, retriable: true });
