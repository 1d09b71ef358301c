/** Calls ports as the kernel does: a call with its signal, and its emitted items in order. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { JsonEvent } from '../../src/kernel/json.ts';
import type { InputOf, ItemOf, Operation, OutputOf, Port } from '../../src/kernel/operation.ts';

/** A folder for one test, removed afterwards. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'statelet-host-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

let calls = 0;

export function perform<Input, Output, Item extends JsonEvent>(
  port: Port<Operation<Input, Output, Item>>,
  input: InputOf<Operation<Input, Output, Item>>,
): Promise<OutputOf<Operation<Input, Output, Item>>> {
  const { signal } = new AbortController();
  return port({ id: ++calls, input, resume: false, signal, emit: () => {} });
}

export class OpenStream<Item> {
  readonly items: Item[] = [];
  readonly #abort = new AbortController();
  #changed: () => void = () => {};
  /** Settles when the call has ended. */
  readonly ended: Promise<unknown>;

  constructor(start: (signal: AbortSignal, emit: (item: Item) => void) => Promise<unknown>) {
    this.ended = start(this.#abort.signal, (item) => {
      this.items.push(item);
      this.#changed();
    });
    this.ended.catch(() => this.#changed());
    onTestFinished(() => this.close());
  }

  get last(): Item | undefined {
    return this.items.at(-1);
  }

  /** The first item for which `wanted` is true, emitted already or later. */
  async until(wanted: (item: Item) => boolean, withinMs = 30_000): Promise<Item> {
    const giveUpAt = Date.now() + withinMs;
    for (;;) {
      const found = this.items.find(wanted);
      if (found !== undefined) return found;
      const leftMs = giveUpAt - Date.now();
      if (leftMs <= 0) throw new Error(`not said within ${withinMs} ms; said: ${JSON.stringify(this.items, null, 1)}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#changed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.ended.catch(() => {});
  }
}

export function openStream<Input, Output, Item extends JsonEvent>(
  port: Port<Operation<Input, Output, Item>>,
  input: InputOf<Operation<Input, Output, Item>>,
): OpenStream<ItemOf<Operation<Input, Output, Item>>> {
  return new OpenStream((signal, emit) => port({ id: ++calls, input, resume: false, signal, emit }));
}
