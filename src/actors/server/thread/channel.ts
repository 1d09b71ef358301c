/**
 * Requests and answers between two threads, over one pair of message ports. Both sides are symmetric.
 *
 * Invariants: C1 every request is answered once, with a value, an error, or {@link Channel.close}'s error. C2 a side
 * has at most {@link QUESTIONS_MAX} open requests. C3 of the items sent before an answer, at most {@link ITEMS_MAX} are
 * in transit: `emit` waits for the requesting side. C4 requests are answered for {@link SLICE_MS} in a round of the
 * event loop: many that arrive together do not hold up a thread that also decides.
 */
import { setImmediate } from 'node:timers/promises';
import { OperationError, type PlainError, toPlainError } from '../../../kernel/json.ts';
import { carrying, traceparent } from '../../tracing/propagation.ts';

/** The common interface of a port and a worker. */
export interface MessageEnd {
  postMessage(message: unknown): void;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

/** The limit of open requests of one side: every connection of every port may have one. */
const QUESTIONS_MAX = 8_192;
/** The limit of items in transit: the sender need not wait for each, and items of 64 KiB use little memory. */
const ITEMS_MAX = 16;
/** How long requests are answered in one round of the event loop: as long as the kernel takes turns back to back. */
const SLICE_MS = 5;

export interface ReceivedCall {
  /** Aborted when the requesting side cancels or has ended. */
  readonly signal: AbortSignal;
  /** Sends an item before the answer; resolves when more may be sent. */
  readonly emit: (item: unknown) => Promise<void>;
}

/** The answers of one side, by the name of the request. */
export type Answers = Readonly<Record<string, (input: never, call: ReceivedCall) => unknown>>;

export interface AskOptions {
  readonly signal?: AbortSignal | undefined;
  /** Receives the items of the answer in order. The other side waits until they are handled. */
  readonly onItem?: (item: never) => unknown;
}

type Message =
  | {
      readonly kind: 'question';
      readonly id: number;
      readonly name: string;
      readonly input: unknown;
      readonly traceparent?: string;
    }
  | { readonly kind: 'answer'; readonly id: number; readonly output: unknown }
  | { readonly kind: 'error'; readonly id: number; readonly error: PlainError }
  | { readonly kind: 'item'; readonly id: number; readonly item: unknown }
  | { readonly kind: 'taken' | 'cancel'; readonly id: number };

interface OutgoingCall {
  readonly resolve: (output: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly onItem: (item: unknown) => unknown;
}

type Question = Extract<Message, { readonly kind: 'question' }>;

class IncomingCall {
  readonly abort = new AbortController();
  #unacknowledged = 0;
  #waiting: (() => void)[] = [];

  async sent(): Promise<void> {
    if (++this.#unacknowledged < ITEMS_MAX || this.abort.signal.aborted) return;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  taken(): void {
    this.#unacknowledged--;
    this.#waiting.shift()?.();
  }

  cancel(): void {
    this.abort.abort();
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

export class Channel {
  readonly #end: MessageEnd;
  readonly #answers: Answers;
  readonly #outgoing = new Map<number, OutgoingCall>();
  readonly #incoming = new Map<number, IncomingCall>();
  /** Questions that wait for their round. */
  readonly #waiting = new Set<Question>();
  #isAnswering = false;
  #lastId = 0;
  #closed: Error | undefined;

  constructor(end: MessageEnd, answers: Answers) {
    this.#end = end;
    this.#answers = answers;
    end.on('message', (message) => this.#receive(message as Message));
  }

  /** Rejects with the other side's error as an {@link OperationError}. The answer arrives even after an abort. */
  ask<Output>(name: string, input: unknown, { signal, onItem = () => {} }: AskOptions = {}): Promise<Output> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (this.#outgoing.size >= QUESTIONS_MAX) {
      return Promise.reject(new OperationError(`too many requests are under way (${QUESTIONS_MAX}): try again`));
    }
    const id = ++this.#lastId;
    const cancel = (): void => this.#send({ kind: 'cancel', id });
    return new Promise((resolve, reject) => {
      const settled = (): boolean => {
        signal?.removeEventListener('abort', cancel);
        return this.#outgoing.delete(id);
      };
      const span = traceparent();
      this.#send({ kind: 'question', id, name, input, ...(span === undefined ? {} : { traceparent: span }) });
      this.#outgoing.set(id, {
        resolve: (output) => settled() && resolve(output as Output),
        reject: (error) => settled() && reject(error),
        onItem: onItem as (item: unknown) => unknown,
      });
      if (signal?.aborted) cancel();
      else signal?.addEventListener('abort', cancel, { once: true });
    });
  }

  /** Called when the other side has ended: no request is answered any more, in either direction. */
  close(why: Error): void {
    this.#closed = why;
    this.#waiting.clear();
    for (const { reject } of this.#outgoing.values()) reject(why);
    for (const call of this.#incoming.values()) call.cancel();
  }

  #send(message: Message): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- applies to windows; this is a port
    if (!this.#closed) this.#end.postMessage(message);
  }

  #receive(message: Message): void {
    const { id, kind } = message;
    if (this.#closed) return;
    if (kind === 'question') this.#queue(message);
    else if (kind === 'answer') this.#outgoing.get(id)?.resolve(message.output);
    else if (kind === 'error') this.#outgoing.get(id)?.reject(errorOf(message.error));
    else if (kind === 'item') void this.#take(id, message.item);
    else if (kind === 'taken') this.#incoming.get(id)?.taken();
    else this.#incoming.get(id)?.cancel();
  }

  async #take(id: number, item: unknown): Promise<void> {
    try {
      await this.#outgoing.get(id)?.onItem(item);
      this.#send({ kind: 'taken', id });
    } catch (error) {
      this.#outgoing.get(id)?.reject(error as Error);
      this.#send({ kind: 'cancel', id });
    }
  }

  #queue(question: Question): void {
    this.#incoming.set(question.id, new IncomingCall());
    this.#waiting.add(question);
    if (!this.#isAnswering) void this.#answerWaiting();
  }

  async #answerWaiting(): Promise<void> {
    this.#isAnswering = true;
    let beganMs = performance.now();
    for (const question of this.#waiting) {
      this.#waiting.delete(question);
      void this.#answer(question, this.#incoming.get(question.id)!);
      if (performance.now() - beganMs < SLICE_MS) continue;
      await setImmediate();
      beganMs = performance.now();
    }
    this.#isAnswering = false;
  }

  async #answer({ id, name, input, traceparent: span }: Question, call: IncomingCall): Promise<void> {
    const emit = async (item: unknown): Promise<void> => {
      if (!this.#incoming.has(id)) return;
      this.#send({ kind: 'item', id, item });
      await call.sent();
    };
    try {
      const answer = this.#answers[name];
      if (!answer) throw new Error(`this thread has no answer to ${name}`);
      const output = await carrying(span, () => answer(input as never, { signal: call.abort.signal, emit }));
      this.#send({ kind: 'answer', id, output: output ?? null });
    } catch (error) {
      this.#send({ kind: 'error', id, error: toPlainError(error) });
    } finally {
      this.#incoming.delete(id);
    }
  }
}

function errorOf({ message, code, retriable }: PlainError): OperationError {
  return new OperationError(message, {
    ...(code === undefined ? {} : { code }),
    ...(retriable === undefined ? {} : { retriable }),
  });
}
