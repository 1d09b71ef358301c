/**
 * Traces of the node's work, exported by OTLP if `tracing` is configured.
 *
 * Owns the exporter and its queue; neither is loaded on a node without tracing. Calls of the runtime and of the API
 * server carry the span of their operation. Upstream: component-base/tracing, cri-client.
 */
import { steadyNow } from '../../kernel/clock.ts';
import type { EffectRequest } from '../../kernel/effects.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { KernelRecord } from '../../kernel/records.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { PodContext } from '../../machines/charts/pods/pod/pod-context.ts';
import { ROOT } from '../../machines/model/pods/pod-messages.ts';
import type { KubeletContext } from '../../machines/startup/context/types.ts';
import { printLine } from '../log/logger.ts';
import { contextOf } from '../node-records.ts';
import { carrying } from './propagation.ts';
import { DEFAULT_ENDPOINT, openProvider } from './provider.ts';
import type { Spans, TracedPod } from './spans.ts';

/** The limit of records that wait while the exporter is being loaded; a start has a few hundred. */
const WAITING_MAX = 10_000;

type Tracing = NonNullable<NonNullable<KubeletContext['config']>['tracing']>;

export interface Tracer {
  /** For the kernel's option `onTurn`. */
  readonly onTurn: (records: readonly KernelRecord[], kernel: Kernel) => void;
  /** Runs the performance of a request: the calls that it makes belong to the span of the request. */
  readonly around: <Result>(request: EffectRequest, perform: () => Result) => Result;
  /** Sends the spans that wait in the queue. */
  readonly close: () => Promise<void>;
}

const warning = (sentence: string): void => printLine('warn', 'tracing', sentence);

/** `warn`: receives why nothing is exported; the node goes on without. */
export function nodeTracer(version: string, warn = warning): Tracer {
  let kernel: Kernel | undefined;
  let state: 'undecided' | 'off' | 'loading' | 'on' = 'undecided';
  let waiting: KernelRecord[] = [];
  let exported: { readonly spans: Spans; readonly close: () => Promise<void> } | undefined;
  const decide = (running: Kernel): void => {
    const { config, node } = contextOf<KubeletContext>(running, ROOT) ?? {};
    if (!config || !node) return;
    state = config.tracing === undefined ? 'off' : 'loading';
    if (config.tracing === undefined) return void (waiting = []);
    void begin(config.tracing, node.nodeName);
  };
  const begin = async (tracing: Tracing, nodeName: string): Promise<void> => {
    try {
      const { Spans: Recorder } = await import('./spans.ts');
      const { tracer, close } = await openProvider(tracing, nodeName, version);
      exported = {
        spans: new Recorder(
          tracer,
          podIn(() => kernel),
        ),
        close,
      };
      state = 'on';
      exported.spans.take(waiting);
    } catch (error) {
      state = 'off';
      warn(`no traces are exported to "${tracing.endpoint ?? DEFAULT_ENDPOINT}": ${messageOf(error)}`);
    }
    waiting = [];
  };
  return {
    onTurn: (records, running) => {
      if (state === 'off') return;
      kernel = running;
      if (state === 'on') return exported?.spans.take(records);
      if (waiting.length < WAITING_MAX) waiting.push(...records);
      if (state === 'undecided') decide(running);
    },
    around: (request, perform) => carrying(exported?.spans.traceparentOf(request, steadyNow()), perform),
    close: async () => exported?.close(),
  };
}

const podIn =
  (kernel: () => Kernel | undefined) =>
  (address: string): TracedPod | null => {
    const running = kernel();
    return (running && contextOf<PodContext>(running, address)) ?? null;
  };
