/**
 * One mirror pod (`mirror-<namespace>_<name>`): the API server's image of a static pod.
 *
 * Decides: when the mirror pod is created, deleted and recreated.
 * Owns: its static pod, and the object of its name in the API server.
 * Hears: `mirror.wanted`, `mirror.unwanted`, `mirror.released` (nothing of the static pod is left on the node),
 *   `mirror.seen`, `mirror.listed` (the API server has no others), `mirror.judged`.
 * Asks: `kube.get` of the node that owns it, `kube.create`, `kube.delete`.
 * Invariants:
 *   I1 it carries the hash of its static pod; one with another hash, or that is being deleted, is deleted and
 *      recreated.
 *   I2 without a node object there is no mirror pod: it would have no owner.
 *   I3 the mirror of a static pod that ends stays until nothing of the pod is left, so that its end can be seen.
 *   I4 a delete names the uid that was seen.
 *   I5 none is created before the API server's mirror pods were listed: it may exist already.
 */

import {
  type Ended,
  errorIn,
  errorOf,
  line,
  now,
  outputOf,
  pick,
  random,
  required,
  setup,
  typed,
} from '../../../../kernel/xstate.ts';
import { CONFIG_HASH_ANNOTATION, CONFIG_MIRROR_ANNOTATION, type Pod } from '../../../model/api/pod.ts';
import { kubeOperations } from '../../../model/operations/kube.ts';
import type { MirrorMessage, MirrorState } from '../../../model/pods/source-messages.ts';
import { type BackOff, pauseMs, WRITE_BACK_OFF } from '../../../model/values/time.ts';

/** A node that is not registered yet will be soon, and static pods should appear with it. */
const NODE_BACK_OFF: BackOff = { baseMs: 200, maxMs: 2_000 };
/** How long the watch may take to show the effect of a call before the call is repeated. */
const SHOW_MS = 10_000;

export interface MirrorPodInput {
  readonly namespace: string;
  readonly name: string;
  readonly nodeName: string;
  readonly judges: boolean;
  /** The API server's mirror pods were listed. */
  readonly isListed: boolean;
}

interface Context extends MirrorPodInput {
  readonly wanted: Pod | null;
  /** Uids of static pods of this name that are not yet gone from the node. */
  readonly ending: readonly string[];
  readonly seen: (MirrorState & { readonly uid: string }) | null;
  readonly nodeUid: string;
  readonly failures: number;
  readonly untilMs: number;
}

const s = setup({
  types: typed<{ input: MirrorPodInput; context: Context; events: MirrorMessage | Ended }>(),
  actors: pick(kubeOperations, 'kube.get', 'kube.create', 'kube.delete'),
  guards: {
    isOver: ({ context: { wanted, seen, ending } }) => wanted === null && seen === null && ending.length === 0,
    mustDelete: ({ context }) => context.seen !== null && mustDelete(context, context.seen),
    mustCreate: ({ context: { wanted, seen, isListed } }) => wanted !== null && seen === null && isListed,
    /** The watch showed the deletion before the call was answered. */
    isUnseen: ({ context }) => context.seen === null,
    isUnwanted: ({ context }) => context.wanted === null,
    hasNode: ({ event }) => {
      const { metadata } = outputOf<{ metadata: Record<string, unknown> }>(event);
      return typeof metadata['uid'] === 'string' && metadata['deletionTimestamp'] === undefined;
    },
    alreadyExists: ({ event }) => errorOf(event).code === 'AlreadyExists',
    isGone: ({ event }) => errorOf(event).code === 'NotFound',
  },
  delays: { backOff: (args) => Math.max(0, args.context.untilMs - now(args)) },
});

function mustDelete({ wanted, ending, judges }: Context, seen: MirrorState): boolean {
  const isObsolete = wanted === null ? judges : seen.hash !== hashOf(wanted);
  return seen.isDeleting || (isObsolete && ending.length === 0);
}

const hashOf = ({ metadata }: Pod): string => metadata.annotations?.[CONFIG_HASH_ANNOTATION] ?? metadata.uid;

const handleChange = s.assign(({ context, event }) => {
  switch (event.type) {
    case 'mirror.wanted':
      return { wanted: event.pod, failures: 0 };
    case 'mirror.unwanted':
      return context.wanted?.metadata.uid === event.pod.uid
        ? { wanted: null, ending: [...context.ending, event.pod.uid] }
        : {};
    case 'mirror.released':
      return { ending: context.ending.filter((uid) => uid !== event.pod.uid) };
    case 'mirror.seen':
      return { seen: seenAfter(context, event) };
    case 'mirror.listed':
      return { isListed: true, ...(event.uids.includes(context.seen?.uid ?? '') ? {} : { seen: null }) };
    case 'mirror.judged':
      return { judges: true };
    default:
      return {};
  }
});

/** The end of an already replaced pod of the same name changes nothing. */
function seenAfter({ seen }: Context, event: MirrorMessage & { readonly type: 'mirror.seen' }): Context['seen'] {
  if (event.seen !== null) return { ...event.seen, uid: event.pod.uid };
  return seen?.uid === event.pod.uid ? null : seen;
}

/** The object to create, without the fields that the API server sets. */
function mirrorOf({ wanted, nodeName, nodeUid }: Context) {
  const pod = required(wanted, 'the static pod to mirror');
  const { apiVersion, kind, metadata, spec, status } = pod;
  return {
    kind: kind ?? 'Pod',
    apiVersion: apiVersion ?? 'v1',
    metadata: {
      ...metadata,
      annotations: { ...metadata.annotations, [CONFIG_MIRROR_ANNOTATION]: hashOf(pod) },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: nodeName, uid: nodeUid, controller: true }],
    },
    spec,
    status: status ?? { phase: 'Pending' },
  };
}

const noteNode = s.assign({
  nodeUid: ({ event }) => outputOf<{ metadata: { uid: string } }>(event).metadata.uid,
});

const noteFailure = s.assign((args) => {
  const { failures } = args.context;
  const error = errorIn(args.event);
  const backOffMs = pauseMs(WRITE_BACK_OFF, failures, random(args));
  return { failures: failures + 1, untilMs: now(args) + Math.max(backOffMs, error?.retryAfterMs ?? 0) };
});

/** The node has no Node object yet, or it could not be read. */
const noteAbsence = s.assign((args) => {
  const { failures } = args.context;
  return { failures: failures + 1, untilMs: now(args) + pauseMs(NODE_BACK_OFF, failures) };
});

const logFailure = (text: string) =>
  line<Context, MirrorMessage | Ended, undefined, MirrorMessage | Ended>('error', ({ context, event }) => [
    text,
    { pod: `${context.namespace}/${context.name}`, err: errorOf(event).message },
  ]);

const mirrorTarget = ({ namespace, name }: Context) => ({
  client: 'kube' as const,
  apiVersion: 'v1',
  resource: 'pods',
  namespace,
  name,
});

const decideAgain = { target: '#mirrorPod.deciding', actions: handleChange } as const;

export const mirrorPodMachine = s.createMachine({
  id: 'mirrorPod',
  context: ({ input }) => ({
    ...input,
    wanted: null,
    ending: [],
    seen: null,
    nodeUid: '',
    failures: 0,
    untilMs: 0,
  }),
  initial: 'settled',
  on: {
    'mirror.wanted': { actions: handleChange },
    'mirror.unwanted': { actions: handleChange },
    'mirror.released': { actions: handleChange },
    'mirror.seen': { actions: handleChange },
    'mirror.listed': { actions: handleChange },
    'mirror.judged': { actions: handleChange },
  },
  states: {
    deciding: {
      always: [
        { guard: 'isOver', target: 'gone' },
        { guard: 'mustDelete', target: 'deleting' },
        { guard: 'mustCreate', target: 'gettingNode' },
        { target: 'settled' },
      ],
    },
    /** The mirror pod is correct, or nothing can be done yet: waits for a change. */
    settled: {
      on: {
        'mirror.wanted': decideAgain,
        'mirror.unwanted': decideAgain,
        'mirror.released': decideAgain,
        'mirror.seen': decideAgain,
        'mirror.listed': decideAgain,
        'mirror.judged': decideAgain,
      },
    },
    gettingNode: {
      invoke: {
        id: 'node',
        src: 'kube.get',
        input: ({ context }) => ({ client: 'kube', apiVersion: 'v1', resource: 'nodes', name: context.nodeName }),
        onDone: [
          { guard: 'isUnwanted', target: 'deciding' },
          { guard: 'hasNode', target: 'creating', actions: noteNode },
          { target: 'backingOff', actions: noteAbsence },
        ],
        onError: [
          { guard: 'isGone', target: 'backingOff', actions: noteAbsence },
          { target: 'backingOff', actions: noteFailure },
        ],
      },
    },
    creating: {
      invoke: {
        id: 'create',
        src: 'kube.create',
        input: ({ context }) => {
          const { name: _, ...collection } = mirrorTarget(context);
          return { ...collection, body: mirrorOf(context) as never };
        },
        onDone: { target: 'showing', actions: s.assign({ failures: 0 }) },
        onError: [
          { guard: 'alreadyExists', target: 'showing' },
          { target: 'backingOff', actions: [noteFailure, logFailure('Failed creating a mirror pod')] },
        ],
      },
    },
    deleting: {
      invoke: {
        id: 'delete',
        src: 'kube.delete',
        input: ({ context }) => ({
          ...mirrorTarget(context),
          gracePeriodSeconds: 0,
          preconditions: { uid: context.seen?.uid ?? '' },
        }),
        onDone: [
          { guard: 'isUnseen', target: 'deciding', actions: s.assign({ failures: 0 }) },
          { target: 'showing', actions: s.assign({ failures: 0 }) },
        ],
        onError: [
          { guard: 'isUnseen', target: 'deciding' },
          { guard: 'isGone', target: 'showing' },
          { target: 'backingOff', actions: [noteFailure, logFailure('Failed deleting a mirror pod')] },
        ],
      },
    },
    /** Waits until the watch shows the effect of the call. */
    showing: {
      always: { guard: ({ context }) => !isPending(context), target: 'deciding' },
      after: { [SHOW_MS]: 'deciding' },
      on: { 'mirror.seen': decideAgain, 'mirror.listed': decideAgain },
    },
    backingOff: { after: { backOff: 'deciding' } },
    gone: { type: 'final' },
  },
});

/** The watch has not yet shown the effect of the last call. */
const isPending = (context: Context): boolean =>
  context.seen === null ? context.wanted !== null : mustDelete(context, context.seen);
