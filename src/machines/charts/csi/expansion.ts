/**
 * The expansion of one volume (`expansion` below `mount-<n>`): from the claim's request to the result.
 *
 * Decides: whether it is this node's turn, when the driver is called and retried; the consequence of a failure.
 * Owns: the last version of the claim, the back-off.
 * Hears: `expansion.known` of its mount, whenever the driver or the pod changed.
 * Asks: `kube.get` of the claim and of the secret; `csi.capabilities`, `csi.expand`; `kube.patch` of the claim's
 *   status.
 * Sends: `eventRecorder` each failure and the end, for the pod and for the claim. Its output is the result.
 * Invariants:
 *   Z1 the driver is called only if it is the node's turn according to the claim, after the claim is marked as being
 *      expanded.
 *   Z2 the claim gets its size only after the driver has confirmed it.
 *   Z3 a call to the driver is never abandoned; an ending pod is left only between two steps.
 * Upstream: pkg/volume/util/operationexecutor/node_expander.go.
 */
import { type Ended, errorOf, line, now, outputOf, pick, required, setup, to, typed } from '../../../kernel/xstate.ts';
import type { PersistentVolumeClaim } from '../../model/api/pod.ts';
import type { CSIPod, CSIVolume, Driver, Expansion } from '../../model/csi/messages.ts';
import { type Capabilities, notRegistered, type Secrets } from '../../model/csi/policy.ts';
import { csiOperations } from '../../model/operations/csi.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { eventRecorded } from '../../model/pods/pod-messages.ts';
import { type EventText, volumeEvents } from '../../model/reasons/reasons.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import { rfc3339 } from '../../model/values/time.ts';
import {
  afterFailure,
  askCapabilities,
  capabilitiesIn,
  driverGuards,
  fetchSecret,
  reportsAsKubelet,
  retryDelays,
  secretLookup,
  secretsIn,
} from './driver-calls.ts';
import {
  allocatedSize,
  cannotExpand,
  concernsEachNode,
  type ExpandFailure,
  expandFailure,
  expandRequest,
  expands,
  failedBeforeCall,
  failurePatch,
  finishPatch,
  hasSize,
  isOutdated,
  progressPatch,
  verdictOf,
} from './expansion-policy.ts';

interface Known {
  readonly driver: Driver;
  readonly isReleased: boolean;
}

interface ExpansionInput extends Known {
  readonly nodeName: string;
  readonly behavior: number;
  readonly pod: CSIPod;
  readonly volume: CSIVolume;
  readonly expansion: Expansion;
  readonly target: string;
  readonly stagingPath: string;
  /** True if containers use the volume already; otherwise they wait for the expansion. */
  readonly isInUse: boolean;
}

export type ExpansionOrder = { readonly type: 'expansion.known' } & Known;

/** `refused`: no expansion until the claim changes. `inUse`: no expansion to this size while the volume is in use. */
export interface ExpansionResult {
  readonly outcome: 'expanded' | 'refused' | 'inUse' | 'released';
  /** The attempted size. */
  readonly to: string;
}

interface Context extends ExpansionInput {
  readonly claim: PersistentVolumeClaim;
  readonly capabilities: Capabilities;
  readonly secrets: Secrets;
  readonly failure: ExpandFailure;
  /** When the expansion failed, as RFC 3339. */
  readonly failedAt: string;
  /** The driver has definitely failed before. */
  readonly hasFailed: boolean;
  readonly tries: number;
  readonly untilMs: number;
  readonly outcome: ExpansionResult['outcome'];
}

const isAsKubelet = (context: Context): boolean => hasBehavior(context, 'expansionsAsKubelet');

/** The size to which the driver expands the volume, and that the claim then has. */
const sizeOf = (context: Context): string =>
  isAsKubelet(context) ? allocatedSize(context.claim, context.expansion.to) : context.expansion.to;

const verdictIn = (context: Context) => verdictOf(context.claim, sizeOf(context));
const isExpanded = (context: Context): boolean => verdictIn(context) === 'expanded';

const s = setup({
  types: typed<{
    input: ExpansionInput;
    context: Context;
    events: ExpansionOrder | Ended;
    output: ExpansionResult;
  }>(),
  actors: {
    ...pick(csiOperations, 'csi.capabilities', 'csi.expand'),
    ...pick(kubeOperations, 'kube.get', 'kube.patch'),
  },
  guards: {
    ...driverGuards,
    isReleased: ({ context }) => context.isReleased,
    isReadOnly: ({ context }) => context.volume.readOnly,
    isRefused: ({ context }) => verdictIn(context) === 'refused',
    isSettled: ({ context }) => isAsKubelet(context) && isExpanded(context) && !concernsEachNode(context.claim),
    mustMark: ({ context }) => verdictIn(context) === 'expanding' && progressPatch(context.claim) !== null,
    needNotExpand: ({ context }) =>
      isAsKubelet(context) && !expands(context.capabilities) && verdictIn(context) !== 'expanding',
    cannotExpand: ({ context }) => !expands(context.capabilities),
    hasSecret: ({ context }) => context.volume.expandSecret !== null,
    isDone: ({ context }) =>
      hasSize(context.claim, sizeOf(context)) && !(isAsKubelet(context) && verdictIn(context) === 'expanding'),
    mustReportFailure: ({ context }) => failureToReport(context) !== null,
    isInUse: ({ context }) => context.failure.isInUse,
  },
  delays: retryDelays,
});

/** The patch of the claim's status after a failure; `null` for no change. */
function failureToReport(context: Context) {
  const { claim, failure, failedAt, hasFailed } = context;
  if (!failure.isFinal || verdictIn(context) === 'unguided') return null;
  const isInfeasible = failure.isInfeasible || (hasFailed && isOutdated(claim, sizeOf(context)));
  return failurePatch(claim, failure.message, isInfeasible, failedAt);
}

const updateOrder = s.assign(({ event }) => {
  if (event.type !== 'expansion.known') return {};
  const { driver, isReleased } = event;
  return { driver, isReleased };
});

/** The driver registered again, or the pod ended: the back-off is over. */
const becameRegistered = ({ context, event }: { context: Context; event: ExpansionOrder }): boolean =>
  event.driver.endpoint !== context.driver.endpoint || event.isReleased;

const noteClaim = s.assign(({ event }) => ({
  claim: outputOf<PersistentVolumeClaim>(event),
}));
const uncertain = (prefix: string) =>
  s.assign(({ event }) => ({ failure: { ...failedBeforeCall(`${prefix}${errorOf(event).message}`), isFinal: false } }));
const failing = (message: (context: Context, error: string) => string) =>
  s.assign(({ context, event }) => {
    const error = 'error' in event ? errorOf(event).message : '';
    return { failure: failedBeforeCall(message(context, error)) };
  });
/** A missing driver may come back: it has refused nothing. */
const noteUnregistered = s.assign(({ context }) => ({
  failure: { ...failedBeforeCall(notRegistered(context.volume.driver)), isFinal: !isAsKubelet(context) },
}));
const noteFailure = s.assign(({ event }) => ({ failure: expandFailure(errorOf(event)) }));
const patchError = ({ claim }: Context, error: string): string =>
  `patchPVCStatus failed to patch PVC ${JSON.stringify(claim.metadata?.name ?? '')}: ${error}`;
function expandSecretError({ volume: { expandSecret }, behavior }: Context, error: string): string {
  const failure = reportsAsKubelet({ behavior }) ? 'expander.NodeExpand failed' : 'failed';
  const ref = `${expandSecret?.namespace}/${expandSecret?.name}`;
  return `${failure} to get NodeExpandSecretRef ${ref}: ${secretLookup({ behavior }, expandSecret)}${error}`;
}

const ends = (outcome: ExpansionResult['outcome']) => s.assign({ outcome });

/** Records an event of the pod, and of the claim. */
const record = (textOf: (context: Context) => EventText) =>
  s.enqueueActions(({ context, enqueue }) => {
    const { serviceAccount: _, ...pod } = context.pod;
    const claim = { kind: 'PersistentVolumeClaim' as const, ...context.expansion.claim };
    for (const ref of [pod, claim]) enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, textOf(context)));
  });

const reportFailure = s.enqueueActions(({ context, enqueue }) => {
  const { volume, failure, isInUse } = context;
  const { serviceAccount: _, ...pod } = context.pod;
  const waiting = volume.isBlock ? volumeEvents.notMapped : volumeEvents.notMounted;
  const text = (isInUse ? volumeEvents.notExpanded : waiting)(volume.spec, failure.message);
  const isSilent = failure.isInUse && isAsKubelet(context);
  if (!isSilent) enqueue.sendTo(to('eventRecorder'), eventRecorded(pod, text));
  enqueue(line('warn', [text.message, { pod: `${pod.namespace}/${pod.name}`, driver: volume.driver }]));
});

const backOff = s.assign((args) => ({
  ...afterFailure(args),
  hasFailed: args.context.hasFailed || args.context.failure.isFinal,
}));

const claimOf = ({ expansion: { claim } }: Context) =>
  ({
    client: 'kube',
    apiVersion: 'v1',
    resource: 'persistentvolumeclaims',
    namespace: claim.namespace,
    name: claim.name,
  }) as const;

const patching = (context: Context, body: object) => ({
  ...claimOf(context),
  subresource: 'status',
  patchType: 'application/strategic-merge-patch+json' as const,
  body: body as never,
});

/** Asks the driver for its capabilities, fetches the secret, and calls the driver. */
const expanding = s.createStateConfig({
  initial: 'connecting',
  states: {
    connecting: {
      always: [
        { guard: 'isReleased', target: '#csiExpansion.over', actions: ends('released') },
        {
          guard: 'isUnregistered',
          target: '#csiExpansion.failed',
          actions: noteUnregistered,
        },
        { target: 'asking' },
      ],
    },
    asking: {
      invoke: {
        ...askCapabilities,
        onDone: { target: 'choosing', actions: s.assign(({ event }) => capabilitiesIn(event)) },
        onError: {
          target: '#csiExpansion.failed',
          actions: uncertain('Expander.NodeExpand failed to check if node supports expansion : '),
        },
      },
    },
    choosing: {
      always: [
        { guard: 'needNotExpand', target: '#csiExpansion.over', actions: ends('expanded') },
        {
          guard: 'cannotExpand',
          target: '#csiExpansion.failed',
          actions: failing((context) => cannotExpand(context.volume.driver, isAsKubelet(context))),
        },
        { guard: 'hasSecret', target: 'fetchingSecret' },
        { target: 'calling' },
      ],
    },
    fetchingSecret: {
      invoke: {
        ...fetchSecret(({ volume }: Context) => volume.expandSecret),
        onDone: { target: 'calling', actions: s.assign(({ event }) => secretsIn(event)) },
        onError: { target: '#csiExpansion.failed', actions: failing(expandSecretError) },
      },
    },
    calling: {
      meta: { waitsFor: 'the CSI driver to expand the volume' },
      invoke: {
        id: 'expand',
        src: 'csi.expand',
        input: ({ context }) => ({
          endpoint: context.driver.endpoint,
          request: expandRequest(context.volume, sizeOf(context), context),
        }),
        onDone: {
          target: '#csiExpansion.expanded',
          actions: record(({ volume, nodeName }) => volumeEvents.expanded(volume.spec, nodeName)),
        },
        onError: { target: '#csiExpansion.failed', actions: noteFailure },
      },
    },
  },
});

/** After a failure: a final one is written to the claim; the pod gets an event in any case. */
const failed = s.createStateConfig({
  initial: 'judging',
  states: {
    judging: {
      entry: s.assign((args) => ({ failedAt: rfc3339(now(args)) })),
      always: [{ guard: 'mustReportFailure', target: 'reporting' }, { target: 'reported' }],
    },
    reporting: {
      invoke: {
        id: 'failure',
        src: 'kube.patch',
        input: ({ context }) => patching(context, required(failureToReport(context), 'the failure to report')),
        onDone: { target: 'reported', actions: noteClaim },
        onError: {
          target: 'reported',
          actions: line('error', ({ context, event }) => [
            'Cannot tell a claim that its volume was not expanded',
            { err: patchError(context, errorOf(event).message) },
          ]),
        },
      },
    },
    reported: {
      entry: [reportFailure, backOff],
      always: [
        { guard: 'isInUse', target: '#csiExpansion.over', actions: ends('inUse') },
        { target: '#csiExpansion.backingOff' },
      ],
    },
  },
});

export const csiExpansionMachine = s.createMachine({
  id: 'csiExpansion',
  context: ({ input }) => ({
    ...input,
    claim: {},
    capabilities: [],
    secrets: {},
    failure: failedBeforeCall(''),
    failedAt: '',
    hasFailed: false,
    tries: 0,
    untilMs: 0,
    outcome: 'released',
  }),
  initial: 'deciding',
  on: { 'expansion.known': { actions: updateOrder } },
  output: ({ context: { outcome, expansion } }) => ({ outcome, to: expansion.to }),
  states: {
    deciding: {
      always: [
        { guard: 'isReleased', target: 'over', actions: ends('released') },
        {
          guard: 'isReadOnly',
          target: 'over',
          actions: [record(({ volume }) => volumeEvents.readOnly(volume.spec)), ends('refused')],
        },
        { target: 'gettingClaim' },
      ],
    },
    gettingClaim: {
      invoke: {
        id: 'claim',
        src: 'kube.get',
        input: ({ context }) => claimOf(context),
        onDone: { target: 'judging', actions: noteClaim },
        onError: { target: 'failed', actions: uncertain('mountVolume.NodeExpandVolume get PVC failed : ') },
      },
    },
    judging: {
      always: [
        { guard: 'isRefused', target: 'over', actions: ends('refused') },
        { guard: 'isSettled', target: 'over', actions: ends('expanded') },
        { guard: 'mustMark', target: 'marking' },
        { target: 'expanding' },
      ],
    },
    marking: {
      invoke: {
        id: 'progress',
        src: 'kube.patch',
        input: ({ context }) => patching(context, required(progressPatch(context.claim), 'the progress to report')),
        onDone: { target: 'expanding', actions: noteClaim },
        onError: {
          target: 'failed',
          actions: s.assign(({ context, event }) => ({
            failure: { ...failedBeforeCall(patchError(context, errorOf(event).message)), isFinal: false },
          })),
        },
      },
    },
    expanding,
    expanded: {
      always: [{ guard: 'isDone', target: 'over', actions: ends('expanded') }, { target: 'finishing' }],
    },
    finishing: {
      invoke: {
        id: 'finish',
        src: 'kube.patch',
        input: ({ context }) => patching(context, finishPatch(context.claim, sizeOf(context))),
        onDone: { target: 'over', actions: ends('expanded') },
        onError: { target: 'failed', actions: uncertain('mountVolume.NodeExpandVolume update pvc status failed: ') },
      },
    },
    failed,
    backingOff: {
      always: { guard: 'isReleased', target: 'over', actions: ends('released') },
      on: {
        'expansion.known': [
          { guard: becameRegistered, target: 'deciding', actions: updateOrder },
          { actions: updateOrder },
        ],
      },
      after: { wait: 'deciding' },
    },
    over: { type: 'final' },
  },
});
