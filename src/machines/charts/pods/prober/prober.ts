/**
 * One probe of one instance of a container (`prober-<container>-<kind>`), from its first attempt until the instance
 * ends or its last verdict.
 *
 * Decides: when the first attempt is made, which verdict is the last. The pod decides what follows from a verdict.
 * Owns: the verdict that holds.
 * Hears: `probe.judged` and `probe.reported` of its own watch.
 * Asks: `probe.watch`, which repeats the attempts and is silent while they succeed.
 * Sends: its pod each verdict; `eventRecorder` the events of probes.
 * Invariants:
 *   B1 a verdict names the instance that it is about.
 *   B2 after a failed liveness, or any verdict of startup, the probe does not run any more.
 */

import { type Ended, errorOf, line, pick, setup, to, typed } from '../../../../kernel/xstate.ts';
import type { ObjectReference } from '../../../model/api/pod.ts';
import type { ProbeJudged, ProbeReport, ProbeWatch } from '../../../model/operations/probe.ts';
import { probeOperations } from '../../../model/operations/probe.ts';
import { eventRecorded, type ProberReport } from '../../../model/pods/pod-messages.ts';
import { containerEvents, type ProbeName } from '../../../model/reasons/reasons.ts';
import type { ProbeCall, ProbeKind } from './prober-policy.ts';

/** The pause before a watch that ended or failed is opened again. */
const WATCH_RETRY_MS = 1_000;

export interface ProberInput {
  readonly kind: ProbeKind;
  readonly container: string;
  readonly containerId: string;
  readonly ref: ObjectReference;
  readonly asked: ProbeCall;
  readonly delayMs: number;
  readonly watch: Omit<ProbeWatch, 'handler'>;
  /** An impossible probe is an event in each period, not once: behavior `impossibleProbeEachPeriod`. */
  readonly repeatsErrors: boolean;
}

const NAMES: Readonly<Record<ProbeKind, ProbeName>> = {
  startup: 'Startup',
  readiness: 'Readiness',
  liveness: 'Liveness',
};

function textOf(kind: ProbeKind, { result, output, state }: ProbeReport) {
  if (result === 'failure') return containerEvents.unhealthy(NAMES[kind], output);
  if (result === 'warning') return containerEvents.probeWarning(NAMES[kind], output);
  return containerEvents.probeErrored(NAMES[kind], output, state);
}

const s = setup({
  types: typed<{ input: ProberInput; context: ProberInput; events: ProbeJudged | ProbeReport | Ended }>(),
  actors: pick(probeOperations, 'probe.watch'),
  guards: {
    isDue: ({ context }) => context.delayMs === 0,
    isImpossible: ({ context }) => 'error' in context.asked,
    isReportedOnce: ({ context }) => 'error' in context.asked && !context.repeatsErrors,
    isLast: ({ context, event }) =>
      event.type === 'probe.judged' &&
      (context.kind === 'startup' || (context.kind === 'liveness' && event.verdict === 'failure')),
  },
  delays: {
    first: ({ context }) => context.delayMs,
    period: ({ context }) => context.watch.periodSeconds * 1_000,
  },
});

const report = s.enqueueActions(({ context: { ref, kind }, event, enqueue }) => {
  if (event.type !== 'probe.reported') return;
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, textOf(kind, event)));
});

const sendVerdict = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'probe.judged') return;
  const { container, kind, containerId, watch } = context;
  const { verdict } = event;
  enqueue.assign({ watch: { ...watch, verdict } });
  const report: ProberReport = { type: 'prober.judged', container, kind, containerId, verdict };
  enqueue.sendParent(report);
});

/** The probe names a port that the container does not have, or has no command. */
const reportImpossible = s.enqueueActions(({ context: { ref, kind, asked }, enqueue }) => {
  if ('error' in asked)
    enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, containerEvents.probeErrored(NAMES[kind], asked.error)));
});

export const proberMachine = s.createMachine({
  id: 'prober',
  context: ({ input }) => input,
  initial: 'choosing',
  states: {
    choosing: {
      always: [
        { guard: 'isReportedOnce', target: 'unaskable' },
        { guard: 'isDue', target: 'due' },
        { target: 'delayed' },
      ],
    },
    /** Used by journals of nodes that reported an impossible probe once. */
    unaskable: { entry: reportImpossible },
    /**
     * Waits for `initialDelaySeconds`, or for its share of the period over which a starting agent spreads first probes.
     */
    delayed: { after: { first: 'due' } },
    due: { always: [{ guard: 'isImpossible', target: 'impossible' }, { target: 'probing' }] },
    /** Reports in each period that the probe cannot be made, until the instance ends. */
    impossible: { entry: reportImpossible, after: { period: { target: 'impossible', reenter: true } } },
    /** Waits for the first result of the watch. */
    probing: {
      invoke: {
        id: 'watch',
        src: 'probe.watch',
        input: ({ context: { asked, watch } }) => {
          if ('error' in asked) throw new Error(`nothing to ask: ${asked.error}`);
          return { handler: asked.handler, ...watch };
        },
        onDone: 'backingOff',
        onError: {
          target: 'backingOff',
          actions: line('error', ({ context, event }) => [
            'Probing failed',
            { container: context.container, probe: context.kind, error: errorOf(event).message },
          ]),
        },
      },
      on: {
        'probe.reported': { actions: report },
        'probe.judged': [{ guard: 'isLast', target: 'held', actions: sendVerdict }, { actions: sendVerdict }],
      },
    },
    backingOff: { after: { [WATCH_RETRY_MS]: 'probing' } },
    /** The last verdict about this instance was sent: nothing is left to do. */
    held: {},
  },
});
