/**
 * The ClusterTrustBundles of the cluster (`trustBundles` below `objects`), for as long as some pod projects one.
 *
 * Decides: by which version of the API they are read; which trust anchors a query of a pod selects.
 * Owns: the bundles; the wanted keys, and the version that was last published for each.
 * Hears: its reflector, `trustBundles.wanted` of `objects`.
 * Asks: `kube.list` of one bundle, to find the version of the API; its reflector.
 * Sends: `objects` `object.observed` for each wanted key.
 * Invariants:
 *   Y1 nothing is published as missing before the first complete list.
 *   Y2 an unchanged value is not published.
 *   Y3 a cluster without this API is asked again later; until then pods are told why they wait.
 * Upstream: pkg/kubelet/clustertrustbundle/clustertrustbundle_manager.go.
 */

import {
  type Ended,
  type EnqueueOf,
  errorOf,
  line,
  now,
  pick,
  random,
  sendParent,
  setup,
  typed,
} from '../../../kernel/xstate.ts';
import { versionOf } from '../../model/objects/config-objects.ts';
import type { ObjectObserved, ObjectState } from '../../model/objects/keys.ts';
import { type TrustBundle, trustAnchors, trustBundleOf, UNSUPPORTED } from '../../model/objects/trust-anchors.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { pauseMs, READ_BACK_OFF } from '../../model/values/time.ts';
import { REOPEN_MS, type ReflectorReport, reflectorCrash, reflectorMachine } from '../kube/reflector.ts';

/** The newest version that the cluster has is used. */
const VERSIONS = ['v1', 'v1beta1', 'v1alpha1'].map((version) => `certificates.k8s.io/${version}`);
/**
 * The pause before a cluster without the API is asked again: an API server enables it by a restart with other flags.
 */
const ABSENT_MS = 300_000;
/** A list that takes longer is reported to the pods that wait for it. */
const SYNC_MS = 10_000;

const UNSYNCED = 'ClusterTrustBundle informer has not yet synced';

export interface TrustBundlesWanted {
  readonly type: 'trustBundles.wanted';
  readonly keys: readonly string[];
}

interface Context {
  readonly bundles: Readonly<Record<string, TrustBundle>>;
  readonly isListed: boolean;
  /** Index of the API version being tried or used. */
  readonly version: number;
  readonly failures: number;
  readonly untilMs: number;
  /** By wanted key, the version that was last published. */
  readonly reported: Readonly<Record<string, string>>;
}

const isNotFound = (event: unknown): boolean => errorOf(event).code === 'NotFound';

const s = setup({
  types: typed<{ context: Context; events: ReflectorReport | TrustBundlesWanted | Ended }>(),
  actors: { reflector: reflectorMachine, ...pick(kubeOperations, 'kube.list') },
  guards: {
    isAbsent: ({ event }) => isNotFound(event),
    hasAnother: ({ context, event }) => isNotFound(event) && context.version + 1 < VERSIONS.length,
    isUnlisted: ({ context }) => !context.isListed,
  },
  delays: { retry: (args) => Math.max(0, args.context.untilMs - now(args)) },
});

type Enqueue = EnqueueOf<typeof s>;

const target = ({ version }: Context) =>
  ({ client: 'kube', apiVersion: VERSIONS[version] ?? '', resource: 'clustertrustbundles' }) as const;

/** Publishes what changed under the wanted keys. */
function report(enqueue: Enqueue, reported: Context['reported'], stateOf: (key: string) => ObjectState): void {
  const after = Object.entries(reported).map(([key, before]) => {
    const state = stateOf(key);
    const version = versionOf(state);
    if (version !== before) enqueue(sendParent({ type: 'object.observed', key, ...state } satisfies ObjectObserved));
    return [key, version] as const;
  });
  enqueue.assign({ reported: Object.fromEntries(after) });
}

function settle(enqueue: Enqueue, next: Context): void {
  const { bundles, isListed, reported } = next;
  enqueue.assign({ bundles, isListed, reported });
  if (isListed) report(enqueue, reported, (key) => trustAnchors(key, Object.values(bundles)));
}

const handleList = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'reflector.listed') return;
  const bundles = event.items.map(trustBundleOf).map((bundle) => [bundle.name, bundle] as const);
  settle(enqueue, { ...context, isListed: true, bundles: Object.fromEntries(bundles) });
});

const handleChange = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'reflector.changed') return;
  const bundle = trustBundleOf(event.object);
  const { [bundle.name]: _old, ...others } = context.bundles;
  settle(enqueue, { ...context, bundles: event.change === 'DELETED' ? others : { ...others, [bundle.name]: bundle } });
});

const handleWanted = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'trustBundles.wanted') return;
  settle(enqueue, {
    ...context,
    reported: Object.fromEntries(event.keys.map((key) => [key, context.reported[key] ?? ''])),
  });
});

const logUnknown = (message: (event: unknown) => string) =>
  s.enqueueActions(({ context, event, enqueue }) =>
    report(enqueue, context.reported, () => ({ state: 'unknown', message: message(event) })),
  );

const noteFailure = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const pause = pauseMs(READ_BACK_OFF, context.failures, random(args));
  enqueue.assign({ failures: context.failures + 1, untilMs: now(args) + pause });
  enqueue(line('warn', ['Failed to look for the ClusterTrustBundle API', { err: errorOf(event).message }]));
});

/** Pods that want a bundle while the API is missing are told the reason. */
const absent = s.createStateConfig({
  meta: { waitsFor: 'the API server to have ClusterTrustBundles' },
  entry: [
    line(
      'info',
      "No version of the ClusterTrustBundle API was found, the ClusterTrustBundle informer won't be started",
    ),
    logUnknown(() => UNSUPPORTED),
  ],
  on: { 'trustBundles.wanted': { actions: [handleWanted, logUnknown(() => UNSUPPORTED)] } },
  after: { [ABSENT_MS]: { target: 'choosing', actions: s.assign({ version: 0 }) } },
});

export const trustBundlesMachine = s.createMachine({
  id: 'trustBundles',
  context: { bundles: {}, isListed: false, version: 0, failures: 0, untilMs: 0, reported: {} },
  initial: 'choosing',
  on: { 'trustBundles.wanted': { actions: handleWanted } },
  states: {
    choosing: {
      meta: { waitsFor: 'the API server to say which version of ClusterTrustBundles it has' },
      invoke: {
        id: 'probe',
        src: 'kube.list',
        input: ({ context }) => ({ ...target(context), limit: 1, resourceVersion: '0' }),
        onDone: { target: 'watching', actions: s.assign({ failures: 0 }) },
        onError: [
          {
            guard: 'hasAnother',
            target: 'choosing',
            reenter: true,
            actions: s.assign({ version: ({ context }) => context.version + 1 }),
          },
          { guard: 'isAbsent', target: 'absent' },
          { target: 'backingOff', actions: [noteFailure, logUnknown((event) => errorOf(event).message)] },
        ],
      },
    },
    backingOff: { after: { retry: 'choosing' } },
    absent,
    watching: {
      invoke: {
        id: 'reflector',
        src: 'reflector',
        input: ({ context }) => ({ target: target(context) }),
        onDone: 'reopening',
        onError: { target: 'reopening', actions: reflectorCrash('the ClusterTrustBundles of the API server') },
      },
      on: { 'reflector.listed': { actions: handleList }, 'reflector.changed': { actions: handleChange } },
      after: { [SYNC_MS]: { guard: 'isUnlisted', actions: logUnknown(() => UNSYNCED) } },
    },
    reopening: { after: { [REOPEN_MS]: 'watching' } },
  },
});
