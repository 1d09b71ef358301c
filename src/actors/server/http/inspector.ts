/** Profiles of this thread by V8's inspector. One profile of a kind at a time: a second profile would end the first. */
import type { InspectorNotification } from 'node:inspector';
import { Session } from 'node:inspector/promises';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { getHeapSnapshot } from 'node:v8';
import type { QuestionAnswers } from '../thread/questions.ts';

/** The profiler is in use: the client may retry. */
class ProfilerBusy extends Error {
  constructor() {
    super('Could not enable CPU profiling: cpu profiling already in use');
  }
}

/** The kinds of profile in progress. */
const busy = new Set<string>();

async function measured<T>(what: string, measure: (session: Session) => Promise<T>): Promise<T> {
  if (busy.has(what)) throw new ProfilerBusy();
  busy.add(what);
  const session = new Session();
  try {
    session.connect();
    return await measure(session);
  } finally {
    session.disconnect();
    busy.delete(what);
  }
}

/** Waits this long, or until the client disconnects. */
const during = (seconds: number, signal: AbortSignal): Promise<unknown> =>
  pause(seconds * 1_000, undefined, { signal }).catch(() => {});

/** A `.cpuprofile`. */
const cpuProfile = (seconds: number, signal: AbortSignal): Promise<string> =>
  measured('cpu', async (session) => {
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await during(seconds, signal);
    const { profile } = await session.post('Profiler.stop');
    return JSON.stringify(profile);
  });

/** A `.heapprofile`. */
const allocations = (seconds: number, signal: AbortSignal): Promise<string> =>
  measured('allocations', async (session) => {
    await session.post('HeapProfiler.startSampling');
    await during(seconds, signal);
    const { profile } = await session.post('HeapProfiler.stopSampling');
    return JSON.stringify(profile);
  });

/** Events of Node in Chrome's tracing format, without V8's: starting those while it compiles crashes V8. */
const traceEvents = (seconds: number, signal: AbortSignal): Promise<string> =>
  measured('trace', async (session) => {
    const events: unknown[] = [];
    session.on('NodeTracing.dataCollected', ({ params }: InspectorNotification<{ value: unknown[] }>) => {
      events.push(...params.value);
    });
    const complete = new Promise((resolve) => session.once('NodeTracing.tracingComplete', resolve));
    await session.post('NodeTracing.start', { traceConfig: { includedCategories: ['node'] } });
    await during(seconds, signal);
    await session.post('NodeTracing.stop');
    await complete;
    return JSON.stringify({ traceEvents: events });
  });

/** Facts about the program for users, requested from the main thread. */
export interface Insight {
  /** The command line, memory usage and resources of the event loop. */
  facts(): Facts | Promise<Facts>;
  /** Measures for this many seconds, or until the signal. */
  profile(kind: ProfileKind, seconds: number, signal: AbortSignal): Promise<string>;
  /** A `.heapsnapshot`. */
  heap(): Readable;
}

interface Facts {
  readonly argv: readonly string[];
  readonly memory: Readonly<Record<string, number>>;
  /** By kind, the resources that the event loop waits for. */
  readonly waitsFor: readonly string[];
}

const PROFILES = { cpu: cpuProfile, allocations, trace: traceEvents };
export type ProfileKind = keyof typeof PROFILES;

export const ownInsight: Insight = {
  facts: () => ({
    argv: process.argv,
    memory: { ...process.memoryUsage() },
    waitsFor: process.getActiveResourcesInfo(),
  }),
  profile: (kind, seconds, signal) => PROFILES[kind](seconds, signal),
  heap: () => getHeapSnapshot(),
};

/** Profiles of the program, taken by the main thread: users want its profile, not that of the server thread. */
export const insightAnswers: Pick<QuestionAnswers, 'facts' | 'profile' | 'heap'> = {
  facts: () => ownInsight.facts(),
  profile: ({ kind, seconds }, { signal }) => ownInsight.profile(kind, seconds, signal),
  heap: async (_input, { signal, emit }) => {
    const snapshot = ownInsight.heap().setEncoding('utf8');
    for await (const piece of snapshot) {
      if (signal.aborted) break;
      await emit(piece);
    }
    return null;
  },
};
