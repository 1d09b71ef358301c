/**
 * One PersistentVolumeClaim that pods use (`object-<key>` below `objects`), and the volume that is bound to it.
 *
 * Decides: whether the claim can be mounted on this node, and which volume it is bound to.
 * Owns: the version that was last published; the name of the bound volume.
 * Hears: `node.labels` of `objects`.
 * Asks: `kube.get` of the claim, periodically because a node may not watch claims, and of the volume.
 * Sends: `objects` `object.observed`.
 * Invariants:
 *   A1 a claim is usable only while it is bound to its volume and not being deleted; pods that already use it keep it.
 *   A2 a volume that this agent cannot mount is reported by its kind, never left out.
 *   A3 a volume that only some nodes can reach is not reported before the labels of this node are known.
 */

import type { ActionArgsOf, Ended, EnqueueOf } from '../../../kernel/xstate.ts';
import {
  errorOf,
  isObject,
  messageOf,
  now,
  outputOf,
  pick,
  random,
  sendParent,
  setup,
  typed,
} from '../../../kernel/xstate.ts';
import { matchesTerm } from '../../model/allocation/node-match.ts';
import type { NodeTerm } from '../../model/allocation/request.ts';
import type { PersistentVolumeClaim, PersistentVolumeSpec } from '../../model/api/pod.ts';
import { migratedSpec } from '../../model/csi/migration.ts';
import { versionOf } from '../../model/objects/config-objects.ts';
import type { NodeLabels, ObjectId, ObjectObserved, ObjectState } from '../../model/objects/keys.ts';
import { idOf } from '../../model/objects/keys.ts';
import { type KubeObject, kubeOperations } from '../../model/operations/kube.ts';
import type { BoundVolume } from '../../model/operations/volume.ts';
import { pauseMs, READ_BACK_OFF } from '../../model/values/time.ts';

/** The interval between reads of a claim in use: a kubelet's period of syncing a pod. */
const GET_AGAIN_MS = 60_000;

export interface ClaimInput {
  readonly key: string;
  /** Labels of this node; `null` while unknown. */
  readonly labels: Readonly<Record<string, string>> | null;
  /** Volumes of file servers, and of plugins that CSI drivers replaced, can be mounted; absent if they cannot. */
  readonly hasNetwork?: true;
  /** Disks of storage networks can be mounted; absent if they cannot. */
  readonly hasDisks?: true;
}

interface Context extends ClaimInput {
  /** The version that was last published; `null` for none. */
  readonly version: string | null;
  /** The name of the bound volume; empty if none can be mounted. */
  readonly volumeName: string;
  /** Uid of the pod that the claim was created for; empty for none. */
  readonly owner: string;
  readonly size: BoundVolume['size'];
  readonly volume: KubeObject | null;
  readonly failures: number;
  readonly untilMs: number;
}

const s = setup({
  types: typed<{ input: ClaimInput; context: Context; events: NodeLabels | Ended }>(),
  actors: pick(kubeOperations, 'kube.get'),
  guards: {
    hasVolume: ({ context }) => context.volumeName !== '',
    needsLabels: ({ context }) => context.labels === null && termsOf(context) !== null,
    knowsLabels: ({ context }) => context.labels !== null,
  },
  delays: {
    retry: (args) => Math.max(0, args.context.untilMs - now(args)),
    getAgain: (args) => GET_AGAIN_MS * (1 + random(args) / 2),
  },
});

type Enqueue = EnqueueOf<typeof s>;

function report(enqueue: Enqueue, { key, version }: Context, state: ObjectState): void {
  const next = versionOf(state);
  enqueue.assign({ version: next });
  if (next !== version) enqueue(sendParent({ type: 'object.observed', key, ...state } satisfies ObjectObserved));
}

const problem = ({ key }: Pick<Context, 'key'>, text: string): ObjectState => {
  const { namespace, name } = idOf(key);
  return { state: 'unknown', message: `error processing PVC ${namespace}/${name}: ${text}` };
};

/** Upstream's reason why the claim cannot be used; empty if it can. */
function refusalOf(claim: KubeObject | null, name: string): string {
  if (claim === null) return `failed to fetch PVC from API server: persistentvolumeclaims "${name}" not found`;
  if (isBeingDeleted(claim)) return 'PVC is being deleted';
  const [spec, status] = [claim['spec'], claim['status']];
  if (!isObject(status) || status['phase'] !== 'Bound') return 'PVC is not bound';
  return isObject(spec) && spec['volumeName'] ? '' : 'PVC has empty pvc.Spec.VolumeName';
}

const PROTECTION = 'kubernetes.io/pvc-protection';

/**
 * Whether the claim is being deleted. A protected one stays as long as pods use it, including pods that this agent does
 * not know yet.
 */
function isBeingDeleted({ metadata }: KubeObject): boolean {
  const { deletionTimestamp, finalizers } = metadata;
  return deletionTimestamp !== undefined && !(Array.isArray(finalizers) && finalizers.includes(PROTECTION));
}

const pauseOf = (args: ActionArgsOf<typeof s>) => {
  const { failures } = args.context;
  const pause = pauseMs(READ_BACK_OFF, failures, random(args));
  return { failures: failures + 1, untilMs: now(args) + pause };
};

const volumeNameIn = (claim: KubeObject | null): string => {
  const spec = claim?.['spec'];
  return isObject(spec) && typeof spec['volumeName'] === 'string' ? spec['volumeName'] : '';
};

const handleClaim = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const claim = outputOf<KubeObject | undefined>(event) ?? null;
  const refusal = refusalOf(claim, idOf(context.key).name);
  const volumeName = refusal === '' ? volumeNameIn(claim) : '';
  const size = sizeOf(idOf(context.key), claim);
  enqueue.assign({ volumeName, owner: ownerOf(claim), size, volume: null });
  if (refusal === '') return enqueue.assign({ failures: 0 });
  enqueue.assign(pauseOf(args));
  report(enqueue, { ...context, volumeName }, problem(context, refusal));
});

/** After a failed read the published state stays: an unreachable server removes no volume. */
const noteUnread = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { message } = errorOf(event);
  enqueue.assign(pauseOf(args));
  if (context.version === null)
    report(enqueue, context, problem(context, `failed to fetch PVC from API server: ${message}`));
});

/** Uid of the pod that the claim was created for; empty for none. */
function ownerOf(claim: KubeObject | null): string {
  const owners = claim?.metadata['ownerReferences'];
  const controller = Array.isArray(owners)
    ? owners.find((each) => isObject(each) && each['controller'] === true)
    : null;
  return isObject(controller) && typeof controller['uid'] === 'string' ? controller['uid'] : '';
}

function sizeOf({ namespace, name }: ObjectId, claim: KubeObject | null): BoundVolume['size'] {
  const { metadata, status } = (claim ?? {}) as Partial<PersistentVolumeClaim>;
  const { capacity = {}, allocatedResourceStatuses = {} } = status ?? {};
  return {
    claim: { namespace, name, uid: metadata?.uid ?? '' },
    had: capacity['storage'] ?? '',
    status: allocatedResourceStatuses['storage'] ?? '',
  };
}

const noteVolume = s.assign({ volume: ({ event }) => outputOf<KubeObject>(event) });
const noteLabels = s.assign(({ event }) => (event.type === 'node.labels' ? { labels: event.labels } : {}));

const sendVolume = s.enqueueActions(({ context, enqueue }) => {
  if (context.volume !== null) report(enqueue, context, stateOf(context, context.volume));
});

/** The spec of the volume, or why it cannot be mounted. */
function specOf({ hasNetwork }: Pick<Context, 'hasNetwork'>, volume: KubeObject): PersistentVolumeSpec | string {
  const spec: PersistentVolumeSpec = isObject(volume['spec']) ? volume['spec'] : {};
  if (!hasNetwork) return spec;
  const { name, labels, annotations } = volume.metadata;
  try {
    return migratedSpec({ name, labels: textsOf(labels), annotations: textsOf(annotations), spec });
  } catch (error) {
    return messageOf(error);
  }
}

const textsOf = (map: unknown): Readonly<Record<string, string>> =>
  isObject(map)
    ? Object.fromEntries(Object.entries(map).filter((each): each is [string, string] => typeof each[1] === 'string'))
    : {};

/** Selector terms of which a node must match one; `null` if every node is suitable. */
function termsOf(context: Pick<Context, 'hasNetwork' | 'volume'>): readonly NodeTerm[] | null {
  const spec = context.volume === null ? '' : specOf(context, context.volume);
  return typeof spec === 'string' ? null : (spec.nodeAffinity?.required?.nodeSelectorTerms ?? null);
}

/** Why a volume is not the claim's, although the claim names it; empty if it is. The volume names its claim by uid. */
function holderProblem({ metadata: { name } }: KubeObject, holder: { readonly uid?: string } | undefined, uid: string) {
  if (!isObject(holder))
    return `found PV object ${name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim`;
  if (holder.uid === uid) return '';
  return `found PV object ${name} but its pv.Spec.ClaimRef.UID ${holder.uid ?? ''} does not point to claim.UID ${uid}`;
}

function stateOf(context: Context, volume: KubeObject): ObjectState {
  const { key, labels, owner, size, hasNetwork, hasDisks } = context;
  const whole = specOf(context, volume);
  if (typeof whole === 'string') return { state: 'unknown', message: whole };
  const { claimRef, ...given } = whole;
  const spec = hasNetwork ? withOptions(given, volume) : given;
  const more = [...(hasNetwork ? (['nfs'] as const) : []), ...(hasDisks ? (['iscsi', 'fc'] as const) : [])];
  const mountable = [...KINDS, ...more];
  const { namespace, name } = idOf(key);
  const notBound = holderProblem(volume, claimRef, size.claim.uid);
  if (notBound !== '') return problem({ key }, notBound);
  if (!mountable.some((kind) => isObject(spec[kind]))) {
    const sources = Object.entries(spec).filter(([each, source]) => isObject(source) && !NO_SOURCES.has(each));
    const kinds = sources.map(([each]) => each);
    const text = `PV "${volume.metadata.name}" is of kind ${kinds.join(', ')}, which this node agent cannot mount`;
    return problem({ key }, `${text}; use ${mountable.join(', ')}`);
  }
  const terms = termsOf({ ...context, volume });
  const isReachable = terms === null || terms.some((term) => matchesTerm(term, labels ?? {}, ''));
  const nodeMismatch = isReachable ? '' : 'no matching NodeSelectorTerms';
  const bound = { name: volume.metadata.name, spec, size, owner, ...groupOf(volume), nodeMismatch };
  const version = versionOf([volume.metadata['uid'], bound]);
  return { state: 'found', object: { kind: 'PersistentVolumeClaim', namespace, name, version, data: {}, bound } };
}

const OPTIONS_ANNOTATION = 'volume.beta.kubernetes.io/mount-options';

/** With the mount options of the annotation instead of the volume's; CSI drivers never get these, as upstream. */
function withOptions(spec: Omit<PersistentVolumeSpec, 'claimRef'>, { metadata: { annotations } }: KubeObject) {
  const text = isObject(annotations) ? annotations[OPTIONS_ANNOTATION] : undefined;
  return typeof text === 'string' && !spec.csi
    ? { ...spec, mountOptions: text.split(',').filter((each) => each !== '') }
    : spec;
}

const GROUP_ANNOTATION = 'pv.beta.kubernetes.io/gid';

/** The group that owns the volume's files. A text that is no number names none, as upstream. */
function groupOf({ metadata }: KubeObject): Pick<BoundVolume, 'groupId'> {
  const { annotations } = metadata;
  const text = isObject(annotations) ? annotations[GROUP_ANNOTATION] : undefined;
  return typeof text === 'string' && /^[+-]?\d{1,15}$/.test(text) ? { groupId: Number(text) } : {};
}

const KINDS = ['hostPath', 'local', 'csi'] as const;
const NO_SOURCES: ReadonlySet<string> = new Set(['capacity', 'nodeAffinity']);

const noteFailure = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { message } = errorOf(event);
  enqueue.assign(pauseOf(args));
  report(enqueue, context, problem(context, `failed to fetch PV ${context.volumeName} from API server: ${message}`));
});

const isMissing = ({ event }: { event: { error: unknown } }): boolean => errorOf(event).code === 'NotFound';

export const claimMachine = s.createMachine({
  id: 'claim',
  context: ({ input }) => ({
    ...input,
    version: null,
    volumeName: '',
    owner: '',
    size: sizeOf(idOf(input.key), null),
    volume: null,
    failures: 0,
    untilMs: 0,
  }),
  initial: 'gettingClaim',
  on: { 'node.labels': { actions: noteLabels } },
  states: {
    gettingClaim: {
      invoke: {
        id: 'claim',
        src: 'kube.get',
        input: ({ context: { key } }) => ({
          client: 'kube',
          apiVersion: 'v1',
          resource: 'persistentvolumeclaims',
          namespace: idOf(key).namespace,
          name: idOf(key).name,
        }),
        onDone: { target: 'deciding', actions: handleClaim },
        onError: [
          { guard: isMissing, target: 'deciding', actions: handleClaim },
          { target: 'backingOff', actions: noteUnread },
        ],
      },
    },
    deciding: { always: [{ guard: 'hasVolume', target: 'gettingVolume' }, { target: 'backingOff' }] },
    gettingVolume: {
      invoke: {
        id: 'volume',
        src: 'kube.get',
        input: ({ context }) => ({
          client: 'kube',
          apiVersion: 'v1',
          resource: 'persistentvolumes',
          name: context.volumeName,
        }),
        onDone: { target: 'judging', actions: noteVolume },
        onError: { target: 'backingOff', actions: noteFailure },
      },
    },
    judging: {
      always: [
        { guard: 'needsLabels', target: 'unlabelled' },
        { target: 'reported', actions: sendVolume },
      ],
    },
    /** Waits to know the labels of this node. */
    unlabelled: { always: { guard: 'knowsLabels', target: 'judging' } },
    /** Waits until the claim has to be read again. */
    reported: {
      after: { getAgain: 'gettingClaim' },
      on: { 'node.labels': { target: 'judging', actions: noteLabels } },
    },
    backingOff: { after: { retry: 'gettingClaim' } },
  },
});
