/**
 * The volumes of CSI drivers on this node, and those on disks of storage networks: one actor for each volume of each
 * pod, one for each device behind them, and, with CSIVolumeHealth, one for the health of each volume.
 *
 * Decides: which volumes start, which devices are staged and unstaged, which of several pods gets a volume that only
 *   one pod may use.
 * Owns: which drivers are registered here and their CSIDriver objects; which pods want which volumes; records that
 *   earlier agents left on disk.
 * Hears: `csi.wanted`, `csi.overdue`, `csi.released` of pods; `csi.driverListening`, `csi.driverGone` of
 *   `pluginManager`; `node.volumes` of `nodeStatus`; the reports of its actors.
 * Asks: `csi.inventory` once; the CSIDriver objects by a reflector, from the first driver or volume on.
 * Sends: pods `csi.mounted`, `csi.unmounted`, and `csi.started` after it lost their requests; `nodeStatus` which
 *   volumes are in use; `pluginManager` how often a driver is asked for its attach limit; `pods` `pods.kill` for a pod
 *   whose volume has no room.
 * Invariants:
 *   I1 nothing starts before the records on disk are read; a wanted volume with a record continues, an orphaned one is
 *      removed when its pod is released.
 *   I2 a device is unstaged only when no volume of it is published, and may not be detached before that.
 *   I3 a hanging driver, volume or pod delays no other.
 *   I4 a pod gets `csi.unmounted` only when no record of its volumes is left.
 *   I5 after a start, a volume of a driver that an earlier agent used fails for lack of the driver only after a while.
 * Seeds: S193, S220. Upstream: pkg/kubelet/volumemanager, pkg/volume/csi.
 */

import { childIn, errorOf, failureLine, line, outputOf, reapChild, to } from '../../../kernel/xstate.ts';
import type { CSIDriverSpec, ObjectReference } from '../../model/api/pod.ts';
import { isDiskPlugin } from '../../model/csi/disks.ts';
import type { CSILimits, CSIReport } from '../../model/csi/messages.ts';
import { deviceKey } from '../../model/csi/policy.ts';
import type { CSIInventory } from '../../model/operations/csi.ts';
import type { KubeObject } from '../../model/operations/kube.ts';
import { eventRecorded, type PodKillWanted } from '../../model/pods/pod-messages.ts';
import { overdueVolumes, podEvents, podMessages } from '../../model/reasons/reasons.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import type { Context, Enqueue, Event } from './csi-volumes-setup.ts';
import { fullDriver, missingVolumes, csiVolumesSetup as s } from './csi-volumes-setup.ts';
import { beginHealth, healthOf, reconcile, reportMounted, sendUsers } from './reconcile.ts';

/** The pause before a crashed actor of a volume is replaced, or the disk is listed again. */
const RETRY_MS = 5_000;
/** The time for drivers to register with an agent that starts; running drivers take a fraction of it. */
const REGISTRATION_MS = 5_000;
/** The pause before a crashed watch of the CSIDriver objects is reopened. */
const REOPEN_MS = 1_000;

/** Updates the context with an event, then reconciles. */
const updating = (change: (context: Context, event: Event) => Partial<Context>) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    enqueue.assign(reconcile(enqueue, { ...context, ...change(context, event) }));
  });

const handleInventory = s.enqueueActions(({ context, event, enqueue }) => {
  const { volumes, devices } = outputOf<CSIInventory>(event);
  const drivers = [...volumes, ...devices].map(({ driver }) => driver).filter((driver) => !isDiskPlugin(driver));
  const awaited = hasBehavior(context, 'driversAwaited') ? [...new Set(drivers)] : [];
  if (awaited.length > 0) enqueue.raise({ type: 'csi.driversOverdue' }, { delay: REGISTRATION_MS });
  enqueue.assign(reconcile(enqueue, { ...context, found: { volumes, devices }, awaited }));
});
const stopAwaiting = updating(() => ({ awaited: [] }));

const logUnread = s.enqueueActions(({ event, enqueue }) => {
  const { errors } = outputOf<CSIInventory>(event);
  for (const error of errors) enqueue(line('error', [error, {}]));
});

/** A volume that was wanted before may need a larger size now. */
const handleWanted = updating(({ pods, mounts }, event) => {
  if (event.type !== 'csi.wanted') return {};
  const { pod, volumes } = event;
  const bySpec = new Map(volumes.map((volume) => [volume.spec, volume]));
  return {
    pods: { ...pods, [pod.uid]: { pod, volumes, isReleased: pods[pod.uid]?.isReleased ?? false } },
    mounts: mounts.map((mount) =>
      mount.uid === pod.uid ? { ...mount, volume: bySpec.get(mount.volume.spec) ?? mount.volume } : mount,
    ),
  };
});

/** A repeated request may come from an actor that lost the answer: it is answered again. */
const answerWanted = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type === 'csi.wanted') reportMounted(enqueue, context, event.pod.uid);
});

/** A pod whose volume has no room on this node is ended, so that the scheduler may find another node. */
function reject(
  enqueue: Enqueue,
  ref: ObjectReference & { readonly uid: string },
  driver: string,
  missing: string,
): void {
  const text = podEvents.attachmentLimit(missing);
  const verdict = { reason: text.reason, message: podMessages.rejected(text.message), published: 'always' } as const;
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, text));
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid: ref.uid, graceSeconds: null, verdict } satisfies PodKillWanted);
  enqueue.sendTo(to('pluginManager'), { type: 'csi.limitReached', name: driver } satisfies CSILimits);
}

const reportOverdue = s.enqueueActions(({ context, event, enqueue }) => {
  const pod = event.type === 'csi.overdue' ? context.pods[event.uid]?.pod : null;
  if (!pod) return;
  const { serviceAccount: _, ...ref } = pod;
  const full = fullDriver(context, pod.uid);
  const { unmounted, unattached } = missingVolumes(context, pod.uid);
  const named = hasBehavior(context, 'managersAsKubelet') ? overdueVolumes(unmounted, unattached) : '';
  if (full !== null) return reject(enqueue, ref, full, named);
  if (unmounted.length === 0) return;
  if (hasBehavior(context, 'overdueVolumesAsKubelet')) {
    const fields = { pod: `${ref.namespace}/${ref.name}`, podUID: ref.uid, err: overdueVolumes(unmounted, unattached) };
    return enqueue(line('error', ['Error syncing pod, skipping', fields]));
  }
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, podEvents.unmountedVolumes(unmounted, unattached)));
});

const handleReleased = updating(({ pods }, event) => {
  if (event.type !== 'csi.released') return {};
  const before = pods[event.uid] ?? { pod: null, volumes: [] };
  return { pods: { ...pods, [event.uid]: { ...before, isReleased: true } } };
});

const handleEndpoint = updating(({ endpoints }, event) => {
  if (event.type === 'csi.driverListening') return { endpoints: { ...endpoints, [event.name]: event.endpoint } };
  if (event.type !== 'csi.driverGone') return {};
  const { [event.name]: _gone, ...others } = endpoints;
  return { endpoints: others };
});

/** Sends `volumesInUse` again if the Node lists other volumes: its publisher may have restarted. */
const handleNode = updating(({ inUse }, event) => {
  if (event.type !== 'node.volumes') return {};
  const isAsReported = JSON.stringify(event.inUse) === JSON.stringify(inUse);
  return { node: { inUse: event.inUse, attached: event.attached }, inUse: isAsReported ? inUse : null };
});

const specIn = (object: KubeObject): CSIDriverSpec => (object['spec'] ?? {}) as CSIDriverSpec;

const handleDrivers = updating(({ drivers }, event) => {
  if (event.type === 'reflector.listed') {
    return { drivers: Object.fromEntries(event.items.map((item) => [item.metadata.name, specIn(item)])) };
  }
  if (event.type !== 'reflector.changed') return {};
  const { name } = event.object.metadata;
  const { [name]: _before, ...others } = drivers ?? {};
  return { drivers: event.change === 'DELETED' ? others : { ...others, [name]: specIn(event.object) } };
});

const handleStaged = updating(({ devices }, event) => {
  if (event.type !== 'device.staged') return {};
  const { key, device: staged } = event;
  return { devices: devices.map((each) => (each.key === key ? { ...each, staged, isNodeFull: false } : each)) };
});

const forwardFailure = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'device.failed') return;
  const { key, step, message, isNodeFull } = event;
  sendUsers(enqueue, context, key, { step, message });
  enqueue.assign({ devices: context.devices.map((each) => (each.key === key ? { ...each, isNodeFull } : each)) });
});

/** A volume that is published again changes nothing. */
const handlePublished = s.enqueueActions(({ context, event, enqueue }) => {
  const found = context.mounts.find(({ id }) => event.type === 'mount.published' && id === event.id);
  if (!found || found.isPublished) return;
  const published = { ...found, isPublished: true };
  const mounts = context.mounts.map((mount) => (mount === found ? published : mount));
  reportMounted(enqueue, { ...context, mounts }, found.uid);
  beginHealth(enqueue, context, found);
  enqueue.assign({ mounts });
});

const handleExpanded = updating(({ mounts, devices }, event) => {
  if (event.type !== 'mount.expanded') return {};
  const { id, size } = event;
  const key = mounts.flatMap((mount) => (mount.id === id ? [deviceKey(mount.volume)] : []))[0];
  return { devices: devices.map((device) => (device.key === key ? { ...device, size } : device)) };
});

/** Forgets a volume that was unpublished, or a device that was unstaged. */
const reap = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  if (context.healthPeriodMs !== undefined) enqueue.stopChild(healthOf(id));
  const mounts = context.mounts.filter((mount) => mount.id !== id);
  const devices = context.devices.filter((device) => device.id !== id);
  enqueue.assign(reconcile(enqueue, { ...context, mounts, devices }));
});

/** An actor crashed. Its record is on disk, where its replacement continues. */
const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  const { message } = errorOf(event);
  enqueue(line('error', ['The actor of a CSI volume crashed and starts again', { id, err: message }]));
  if (context.healthPeriodMs !== undefined) enqueue.stopChild(healthOf(id));
  const crashed = <Of extends { readonly id: string }>(each: Of): Of => (each.id === id ? { ...each, id: '' } : each);
  enqueue.assign({ mounts: context.mounts.map(crashed), devices: context.devices.map(crashed) });
  reapChild(enqueue, id, { type: 'csi.respawn' }, RETRY_MS);
});

const respawn = updating(() => ({}));

const start = s.enqueueActions(({ enqueue }) => {
  enqueue.sendTo(to('pods'), { type: 'csi.started' } satisfies CSIReport);
  enqueue.sendTo(to('pluginManager'), { type: 'csi.driversWanted' });
  enqueue.sendTo(to('nodeStatus'), { type: 'node.wanted' });
});

export const csiVolumesMachine = s.createMachine({
  id: 'csiVolumes',
  context: ({ input }) => ({
    ...input,
    found: null,
    endpoints: {},
    awaited: [],
    drivers: null,
    node: { inUse: [], attached: [] },
    pods: {},
    mounts: [],
    devices: [],
    spawned: 0,
    inUse: null,
    periods: {},
  }),
  type: 'parallel',
  entry: start,
  on: {
    'csi.wanted': { actions: [handleWanted, answerWanted] },
    'csi.overdue': { actions: reportOverdue },
    'csi.released': { actions: handleReleased },
    'csi.driverListening': { actions: handleEndpoint },
    'csi.driverGone': { actions: handleEndpoint },
    'csi.driversOverdue': { actions: stopAwaiting },
    'node.volumes': { actions: handleNode },
    'device.staged': { actions: handleStaged },
    'device.failed': { actions: forwardFailure },
    'mount.published': { actions: handlePublished },
    'mount.expanded': { actions: handleExpanded },
    'csi.respawn': { actions: respawn },
    'xstate.done.actor.*': { actions: reap },
    'xstate.error.actor.*': { actions: reapCrashed },
  },
  states: {
    disk: {
      initial: 'listing',
      states: {
        listing: {
          meta: { waitsFor: 'what earlier agents left on disk' },
          invoke: {
            id: 'inventory',
            src: 'csi.inventory',
            input: ({ context: { rootDir } }) => ({ root: rootDir }),
            onDone: { target: 'known', actions: [logUnread, handleInventory] },
            onError: {
              target: 'backingOff',
              actions: failureLine('error', 'Cannot look for volumes of CSI drivers on disk'),
            },
          },
        },
        backingOff: { after: { [RETRY_MS]: 'listing' } },
        known: {},
      },
    },
    drivers: {
      initial: 'unneeded',
      states: {
        /** No CSI driver is registered and no pod uses a CSI volume: no inventory is needed. */
        unneeded: { always: { guard: 'isUsed', target: 'watching' } },
        watching: {
          on: { 'reflector.listed': { actions: handleDrivers }, 'reflector.changed': { actions: handleDrivers } },
          invoke: {
            id: 'csiDrivers',
            src: 'reflector',
            input: { target: { client: 'kube', apiVersion: 'storage.k8s.io/v1', resource: 'csidrivers' } },
            onDone: 'reopening',
            onError: {
              target: 'reopening',
              actions: failureLine('error', 'Following the CSIDriver objects crashed and starts again'),
            },
          },
        },
        reopening: { after: { [REOPEN_MS]: 'watching' } },
      },
    },
  },
});
