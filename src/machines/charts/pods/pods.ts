/**
 * The pod workers: one actor (`pod-<uid>`) for every pod that is wanted or that the runtime has.
 *
 * Decides: which pods get an actor, which wait for another pod of their name, which are ended, what follows a crash.
 * Owns: by uid the name, whether it is wanted, which objects it names, and the kill that was ordered; all ConfigMaps
 *   and Secrets. The pods themselves are in their actors.
 * Hears: `config.objects`, `config.pods`, `runtime.*` and `pods.housekeeping` of `syncLoop`; `pods.kill`;
 *   `softState.loaded`; `pods.wanted` of `containerManager`; `node.changed` of the root; `network.changed` of
 *   `runtimeState`; for its pods `object.found`,
 *   `csi.*`, restarts of senders and shared CPUs. Answers of `images` and `allocation` go to the pod's actor itself.
 * Asks: `volume.podFolders` and `logs.podFolders` once, for leftovers of an earlier agent; `podConfig` for a pod whose
 *   actor crashed; `softState` for restart counts and back-offs; `objects` for the objects that pods use.
 * Invariants:
 *   W1 each uid has one actor, from the first message until nothing of the pod is left on the node.
 *   W2 of static pods with one full name only one is not held; the next one starts when the one before is gone.
 *   W3 a pod whose end was ordered is not started again; if it is wanted again in the meantime, it restarts afterwards,
 *      which counts as a restart of its containers.
 *   W4 a crashed actor is replaced after a back-off, and inspects the runtime before anything else.
 *   W5 an actor that loaded soft state is then sent which pods still exist.
 */
import { line, now, to } from '../../../kernel/xstate.ts';
import type { AllocationReport, PodsKnown } from '../../model/allocation/messages.ts';
import type { CSIReport } from '../../model/csi/messages.ts';
import type { GarbageWanted, ImageReport } from '../../model/pods/image-messages.ts';
import type { RuntimeMessage } from '../../model/pods/pod-messages.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import {
  endByNode,
  endLeftovers,
  endUnwanted,
  handleConfig,
  handleHousekeeping,
  logUnlisted,
  reap,
  reapCrashed,
  releaseHeld,
  respawn,
  startPod,
} from './pod-actors.ts';
import { forwardObject, handleObjects, podsSetup as s, sendToPod, wantObjectsAgain } from './pods-setup.ts';

/** The pause before folders that could not be listed are listed again. */
const LIST_AGAIN_MS = 60_000;

/** Stores changed settings for new pods, and sends them to the others. */
const handleSettings = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'node.changed') return;
  enqueue.assign({ settings: event.settings });
  for (const { uid, alive } of Object.values(context.records)) if (alive) sendToPod(enqueue, uid, event);
});

/** Stores whether there is a network for new pods, and tells the others. */
const handleNetwork = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'network.changed') return;
  enqueue.assign({ networkError: event.error });
  for (const { uid, alive } of Object.values(context.records)) if (alive) sendToPod(enqueue, uid, event);
});

const forward = s.enqueueActions(({ context, event, enqueue }) => {
  const message = event as RuntimeMessage | ImageReport | AllocationReport | GarbageWanted | CSIReport;
  if ('uid' in message) {
    if (context.records[message.uid]?.alive) sendToPod(enqueue, message.uid, message);
  } else {
    for (const { uid, alive } of Object.values(context.records)) if (alive) sendToPod(enqueue, uid, message);
  }
});

const handleObservation = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'runtime.podChanged') return;
  const { status } = event;
  const known = context.records[status.uid];
  if (known?.alive) sendToPod(enqueue, status.uid, event);
  if (known) return;
  const { uid, name, namespace } = status;
  const added = startPod(args, { uid, name, namespace }, undefined, { runtime: status });
  const record = context.judges ? endUnwanted(enqueue, added) : added;
  enqueue.assign({ records: { ...context.records, [uid]: record } });
});

const handleRelist = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'runtime.relisted') return;
  const listedUids = new Set(event.uids);
  for (const { uid, alive } of Object.values(context.records)) {
    if (alive && !listedUids.has(uid)) sendToPod(enqueue, uid, { type: 'runtime.absent', observedAtMs: now(args) });
  }
  enqueue.assign({ relisted: true, records: releaseHeld(enqueue, context.records) });
});

const handleStale = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'runtime.podStale') return;
  enqueue(line('warn', ['A pod cannot be inspected', { uid: event.uid, error: event.message }]));
  if (!hasBehavior(context.settings, 'containersAsKubelet')) return;
  if (context.records[event.uid]?.alive) sendToPod(enqueue, event.uid, event);
});

const noteSoftState = s.assign(({ event }) => (event.type === 'softState.loaded' ? { softState: event.state } : {}));

const sendKnown = s.enqueueActions(({ context, enqueue }) => {
  const known: PodsKnown = { type: 'pods.known', uids: Object.keys(context.records) };
  const others = hasBehavior(context.settings, 'dynamicResources') ? ['draManager'] : [];
  for (const id of ['allocation', 'containerManager', 'softState', ...others]) enqueue.sendTo(to(id), known);
});

const publishingKnown = s.createStateConfig({
  entry: sendKnown,
  on: { 'softState.loaded': { actions: [noteSoftState, sendKnown] }, 'pods.wanted': { actions: sendKnown } },
});

export const podsMachine = s.createMachine({
  id: 'pods',
  context: ({ input }) => ({
    settings: input.settings,
    softState: { containers: {}, probes: {} },
    networkError: '',
    records: {},
    objects: {},
    relisted: false,
    judges: false,
    lacksLogs: false,
  }),
  entry: s.enqueueActions(({ enqueue }) => {
    enqueue.sendTo(to('softState'), { type: 'softState.wanted' });
    for (const other of ['syncLoop', 'status']) enqueue.sendTo(to(other), { type: 'pods.started' });
    enqueue.sendTo(to('runtimeState'), { type: 'network.wanted' });
  }),
  initial: 'gathering',
  on: {
    'softState.loaded': { actions: noteSoftState },
    'config.objects': { actions: handleObjects },
    'object.found': { actions: forwardObject },
    'objects.started': { actions: wantObjectsAgain },
    'config.pods': { actions: handleConfig },
    'pods.housekeeping': { actions: handleHousekeeping },
    'pods.kill': { actions: endByNode },
    'node.changed': { actions: handleSettings },
    'network.changed': { actions: handleNetwork },
    'allocation.started': { actions: forward },
    'allocation.shared': { actions: forward },
    'runtime.podChanged': { actions: handleObservation },
    'runtime.sandboxChanged': { actions: forward },
    'runtime.containerChanged': { actions: forward },
    'runtime.podRemoved': { actions: forward },
    'runtime.podStale': { actions: handleStale },
    'runtime.relisted': { actions: handleRelist },
    'images.started': { actions: forward },
    'garbage.wanted': { actions: forward },
    'status.wanted': { actions: forward },
    'csi.mounted': { actions: forward },
    'csi.unmounted': { actions: forward },
    'csi.started': { actions: forward },
    'claims.started': { actions: forward },
    'xstate.done.actor.*': { actions: reap },
    'xstate.error.actor.*': { actions: reapCrashed },
    'pod.respawn': { actions: respawn },
  },
  states: {
    /** Waits until it is known which pods are wanted. */
    gathering: { on: { 'pods.housekeeping': { target: 'listingLogs', actions: handleHousekeeping } } },
    listingLogs: {
      invoke: {
        id: 'logFolders',
        src: 'logs.podFolders',
        input: ({ context }) => ({ root: context.settings.podLogsDir }),
        onDone: { target: 'listingFolders', actions: [endLeftovers, s.assign({ lacksLogs: false })] },
        onError: { target: 'listingFolders', actions: [logUnlisted, s.assign({ lacksLogs: true })] },
      },
    },
    listingFolders: {
      invoke: {
        id: 'podFolders',
        src: 'volume.podFolders',
        input: ({ context }) => ({ root: context.settings.rootDir }),
        onDone: [
          { guard: ({ context }) => context.lacksLogs, target: 'retrying', actions: endLeftovers },
          { target: 'keeping', actions: endLeftovers },
        ],
        onError: { target: 'retrying', actions: logUnlisted },
      },
    },
    retrying: { ...publishingKnown, after: { [LIST_AGAIN_MS]: 'listingLogs' } },
    keeping: publishingKnown,
  },
});
