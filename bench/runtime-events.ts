/**
 * Observes Statelet and the control in the same way: by containerd's own event stream.
 *
 * Invariant: times are those that containerd wrote into its events, so that no figure contains delays of this process,
 * its load or its polling.
 */
import type { Envelope, RuntimeClient } from '../src/actors/cri/client.ts';
import { decodeEvent } from '../src/actors/cri/client.ts';

/** Far longer than the longest step; a step that takes longer has failed. */
const PATIENCE_MS = 30_000;

export interface TaskEvent {
  readonly topic: 'start' | 'exit';
  /** The id of a sandbox or a container. */
  readonly id: string;
  readonly pid: number;
  /** Milliseconds since the epoch, with fractions. */
  readonly atMs: number;
}

interface Timestamp {
  readonly seconds: string;
  readonly nanos: number;
}

const TOPICS = { '/tasks/start': 'start', '/tasks/exit': 'exit' } as const;

function taskEvent(envelope: Envelope & { readonly timestamp?: Timestamp }): TaskEvent | null {
  const { topic, event, timestamp } = envelope;
  if (!(topic in TOPICS) || !event || !timestamp) return null;
  const payload = decodeEvent(event.type_url, event.value) as { container_id: string; id?: string; pid: number } | null;
  if (!payload || (payload.id !== undefined && payload.id !== payload.container_id)) return null;
  const atMs = Number(timestamp.seconds) * 1_000 + timestamp.nanos / 1_000_000;
  return { topic: TOPICS[topic as keyof typeof TOPICS], id: payload.container_id, pid: payload.pid, atMs };
}

export class RuntimeEvents {
  readonly #seen: TaskEvent[] = [];
  readonly #stop = new AbortController();
  #wake: (() => void)[] = [];

  constructor(client: RuntimeClient) {
    const filters = Object.keys(TOPICS).map((topic) => `namespace=="k8s.io",topic=="${topic}"`);
    void client
      .stream('Subscribe', { filters }, (envelope) => this.#take(taskEvent(envelope)), this.#stop.signal)
      .catch((error: Error) => {
        throw new Error(`the event stream of containerd broke: ${error.message}`);
      });
  }

  #take(event: TaskEvent | null): void {
    if (!event) return;
    this.#seen.push(event);
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** The events since a mark of `mark()`. */
  since(mark: number): readonly TaskEvent[] {
    return this.#seen.slice(mark);
  }

  mark(): number {
    return this.#seen.length;
  }

  /** The first `count` events since the mark that match. */
  async wait(mark: number, count: number, matches: (event: TaskEvent) => boolean): Promise<readonly TaskEvent[]> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = this.since(mark).filter(matches);
      if (found.length >= count) return found.slice(0, count);
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw new Error(`${found.length} of ${count} events within ${PATIENCE_MS} ms`);
      await this.#next(leftMs);
    }
  }

  #next(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#wake.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  close(): void {
    this.#stop.abort();
  }
}
