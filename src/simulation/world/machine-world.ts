/**
 * A whole machine as a performer: what is about pods is answered by {@link PodsWorld}, everything else from a table,
 * all under virtual time and with the same faults.
 */
import type { EffectRequest, EffectResult, Performer } from '../../kernel/effects.ts';
import type { JsonEvent } from '../../kernel/json.ts';
import type { Operations } from '../../machines/model/operations/index.ts';
import { type Answers, FIRST_WORDS } from './machine-answers.ts';
import { faultError, PodsWorld } from './pods-world.ts';
import { VirtualTime } from './virtual-time.ts';

const LATENCY_MS = 2;

export class MachineWorld implements Performer {
  readonly time: VirtualTime;
  readonly pods: PodsWorld;
  /** By operation, each stream that is open. */
  private readonly streams = new Map<string, Set<(event: JsonEvent) => void>>();
  private readonly answers: Answers;
  private readonly isQuiet: boolean;
  private readonly calls = new Map<string, number>();

  /** `isQuiet`: no stream emits by itself. */
  constructor(answers: Answers, { isQuiet = false, time = new VirtualTime() } = {}) {
    this.time = time;
    this.pods = new PodsWorld(time);
    this.answers = answers;
    this.isQuiet = isQuiet;
  }

  perform(request: EffectRequest, settle: (result: EffectResult) => void, emit: (event: JsonEvent) => void) {
    const entry = this.answers[request.name as keyof Operations];
    if (entry === undefined) return this.pods.perform(request, settle, emit);
    const nth = this.calls.get(request.name) ?? 0;
    this.calls.set(request.name, nth + 1);
    const answer = typeof entry === 'function' ? entry(request.input as never, nth) : entry;
    const { error, hangs = false, extraMs = 0, ...fault } = this.pods.fault(request.name, request.input, nth) ?? {};
    if (answer === 'hangs' || hangs) return () => {};
    if (answer === 'stream') return this.stream(request, emit);
    const result = error === undefined ? answer : { error: faultError({ error, ...fault }) };
    return this.time.arm(this.time.now() + LATENCY_MS + extraMs, () => settle(result));
  }

  emit(stream: keyof Operations, event: JsonEvent): void {
    const listeners = this.streams.get(stream) ?? new Set();
    if (listeners.size === 0) throw new Error(`${stream} is not open`);
    for (const emit of Array.from(listeners)) emit(event);
  }

  private stream({ name, input }: EffectRequest, emit: (event: JsonEvent) => void): () => void {
    const listeners = this.streams.get(name) ?? new Set();
    this.streams.set(name, listeners.add(emit));
    const words = this.isQuiet ? undefined : FIRST_WORDS[name]?.(input as never);
    const disarm = words ? this.time.arm(this.time.now() + LATENCY_MS, () => emit(words)) : () => {};
    return () => {
      disarm();
      listeners.delete(emit);
    };
  }
}
