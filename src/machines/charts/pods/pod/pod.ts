/**
 * One pod (`pod-<uid>`): from the first message about the pod until nothing of it is left on the node.
 *
 * Decides: when its sandbox is created and replaced, which containers may start, when the pod has ended, and how it
 *   ends.
 * Owns: its state in the runtime (its only writer), its sandbox, its containers' actors, its status.
 * Hears: `pod.configured`, `pod.kill`, `pod.released`, `runtime.*`, `object.found` and `csi.mounted` through `pods`;
 *   `image.*` and `allocation.*`; its containers, their probes, its volumes.
 * Asks: `cri.runPodSandbox`, `cri.podStatus` to inspect itself, `host.preparePod`, `users.map`, and the operations of
 *   its end.
 * Sends: `status` each new status.
 * Invariants:
 *   P1 nothing is created before the state of the runtime is known; an instance of the wanted definition is never
 *      touched.
 *   P2 an observation that began before one of its own calls ended never overrides the effect of that call. A sandbox
 *      or container in the answer to a call is not inspected again.
 *   P3 after a call that failed the runtime is inspected before the next try.
 *   P4 the grace period can only become shorter; containers stop before their sandbox, sidecars after the regular
 *      containers.
 *   P5 no sandbox is created before the volumes are set up; files are removed last, when the runtime has nothing of the
 *      pod any more.
 */
import { podEvents } from '../../../model/reasons/reasons.ts';
import {
  beginReplacing,
  configure,
  logFailure,
  noteFailure,
  offline,
  record,
  recordBlocked,
  recordDns,
  reportedAgain,
} from './pod-actions.ts';
import {
  admitting,
  endAllocation,
  handleClaims,
  handleGrant,
  handleHealth,
  handleShared,
  notePending,
  pinning,
  preparingClaims,
  releaseAllocation,
  requestAllocation,
  requestChangedAllocation,
  requestClaims,
} from './pod-allocation.ts';
import {
  adoptContainers,
  beginWriting,
  bindingSubPaths,
  logging,
  mappingUsers,
  noteContainer,
  noteLogs,
  noteRequest,
  permitContainers,
  preparingDevices,
  readingVariables,
  reapContainer,
  reapLog,
  respawnLog,
  retryRefusedContainers,
  withVariables,
} from './pod-containers.ts';
import { initialPod } from './pod-context.ts';
import { deadline, stopSandboxes, terminated, terminating } from './pod-end.ts';
import { filesOfTurn, foldersOf, sandboxConfigOf } from './pod-files.ts';
import { grouping, moving } from './pod-group.ts';
import { forwardImage, requestDelayedImages, requestImage, requestImagesAgain } from './pod-images.ts';
import { noteKill, restartingAll } from './pod-kill.ts';
import { runtimeHandler } from './pod-members.ts';
import { releaseMemory } from './pod-memory.ts';
import { handleNode, rememberPod, sendNode, sendNodeChange } from './pod-node.ts';
import {
  handleAbsence,
  handleInstance,
  handleObservation,
  handleSandbox,
  noteFresh,
  noteStale,
  observeNow,
  observer,
  sendCollectorsAgain,
  staleness,
} from './pod-observation.ts';
import { noteVerdict, probing, reapProber, respawnProber } from './pod-probes.ts';
import { resizing } from './pod-resize.ts';
import { podSetup as s, sendStatusAgain } from './pod-setup.ts';
import { nextAttempt, nextRestarts } from './pod-start-order.ts';
import {
  forwardPublished,
  handleObject,
  handleObjects,
  noteMounted,
  noteObject,
  noteObjects,
  planVolumes,
  reapCredential,
  replaceVolumes,
} from './pod-volumes.ts';

/** How long a new sandbox may take to show its address. */
const SHOW_SANDBOX_MS = 2_000;

const awaiting = {
  /** Waits until it is known that no other pod of the same name is on this node any more. */
  held: s.createStateConfig({
    on: {
      'pod.released': { target: 'choosing', actions: s.assign({ held: false }) },
      'pod.configured': { actions: configure },
      'pod.kill': [
        { guard: 'isEmpty', target: '#gone' },
        { target: '#terminating', actions: noteKill },
      ],
    },
  }),
  /** Waits for the runtime's first report about the pod. */
  unheard: s.createStateConfig({
    always: { guard: ({ context }) => context.runtime !== null, target: 'choosing' },
    on: {
      'pod.configured': { actions: configure },
      'pod.kill': { target: '#terminating.settling', actions: noteKill },
    },
  }),
  /** Waits for its own inspection of the runtime. */
  inspecting: s.createStateConfig({
    entry: observeNow,
    always: { guard: 'isInspected', target: 'choosing' },
    on: {
      'pod.configured': { actions: configure },
      'pod.kill': { target: '#terminating.settling', actions: noteKill },
    },
  }),
  /** The runtime has the pod: waits for its configuration, or for the order to end it as orphaned. */
  unclaimed: s.createStateConfig({
    on: {
      'pod.configured': { target: 'choosing', actions: configure },
      'pod.kill': { target: '#terminating', actions: noteKill },
    },
  }),
};

const replacing = s.createStateConfig({
  entry: [beginReplacing, record(() => podEvents.sandboxChanged())],
  initial: 'containers',
  states: {
    /** Waits until no container runs in the old sandbox. */
    containers: { always: { guard: 'noneRuns', target: 'sandboxes' } },
    sandboxes: stopSandboxes('#sync.preparing'),
  },
});

const preparing = s.createStateConfig({
  initial: 'folders',
  states: {
    folders: {
      invoke: {
        id: 'folders',
        src: 'host.preparePod',
        input: ({ context }) => foldersOf(context),
        onDone: { target: 'volumes', actions: noteLogs },
        onError: {
          target: '#sync.backingOff',
          actions: [noteFailure, record((_, error) => podEvents.failedMakeDirectories(error.message))],
        },
      },
    },
    volumes: {
      meta: { waitsFor: 'its volumes' },
      always: [
        { guard: 'isBlocked', target: '#sync.blocked' },
        { guard: 'isMounted', target: 'grouped' },
      ],
    },
    /** Waits for its cgroup, whose creation began when the pod was admitted. */
    grouped: {
      always: [
        { guard: 'mustPrepareClaims', target: '#sync.preparingClaims' },
        { guard: 'hasGroup', target: '#sync.creatingSandbox' },
      ],
    },
  },
});

const reconfigure = [sendNodeChange, requestChangedAllocation, configure, adoptContainers, planVolumes];

const sync = s.createStateConfig({
  entry: [sendNode, adoptContainers, planVolumes, requestClaims],
  initial: 'deciding',
  always: [
    { guard: 'isDeleted', target: '#terminating', actions: noteKill },
    { guard: 'isOver', target: '#terminating', actions: [endAllocation, noteKill] },
    { guard: 'hasOnlySidecars', target: '#terminating', actions: [endAllocation, noteKill] },
  ],
  on: {
    'pod.kill': { target: '#terminating', actions: noteKill },
    'pod.configured': { actions: reconfigure },
    'volumes.mounted': { actions: noteMounted },
    'volumes.lost': { actions: planVolumes },
    'objects.changed': { actions: [handleObjects, retryRefusedContainers] },
    'object.found': { actions: [handleObject, requestImagesAgain, retryRefusedContainers] },
  },
  states: {
    deciding: {
      always: [
        { guard: 'isOverdue', target: 'overdue' },
        { guard: 'isOffline', target: 'offline' },
        { guard: 'isMisplaced', target: 'moving' },
        { guard: 'isBlocked', target: 'blocked' },
        { guard: 'mustRestartAll', target: 'restartingAll' },
        { guard: 'needsUsers', target: 'mappingUsers' },
        { guard: 'hasSandbox', target: 'active' },
        { guard: 'isFinished', target: '#terminating', actions: noteKill },
        { guard: 'mustReplace', target: 'replacing' },
        { target: 'preparing' },
      ],
    },
    /** The deadline is exceeded: waits for the order to end the pod, or for a configuration with a later deadline. */
    overdue: { on: { 'pod.configured': { target: 'deciding', actions: reconfigure } } },
    /** This node can never run the pod: waits for another configuration. */
    blocked: {
      entry: recordBlocked,
      ...reportedAgain,
      on: {
        'pod.configured': { target: 'deciding', actions: [...reconfigure, requestImagesAgain] },
        'object.found': { target: 'deciding', actions: [handleObject, requestImagesAgain] },
      },
    },
    offline,
    replacing,
    moving,
    restartingAll,
    preparing,
    preparingClaims,
    mappingUsers,
    creatingSandbox: {
      meta: { waitsFor: 'the runtime to create its sandbox' },
      entry: recordDns,
      invoke: {
        id: 'runSandbox',
        src: 'cri.runPodSandbox',
        input: ({ context }) => ({
          config: sandboxConfigOf(context, nextAttempt(context)),
          runtimeHandler: runtimeHandler(context) ?? '',
        }),
        onDone: { target: 'awaitingSandbox', actions: handleSandbox },
        onError: {
          target: 'backingOff',
          actions: [
            noteFailure,
            logFailure('CreatePodSandbox for pod failed'),
            record((_, error) => podEvents.failedCreatePodSandBox(error.message)),
          ],
        },
      },
      /** The call is abandoned; its effect is observed before the rest is stopped. */
      on: { 'pod.kill': { target: '#terminating.settling', actions: noteKill } },
    },
    /** Waits until the runtime shows the new sandbox with its address. */
    awaitingSandbox: {
      always: { guard: 'hasSandbox', target: 'active' },
      after: { [SHOW_SANDBOX_MS]: 'inspecting' },
    },
    /** The sandbox is ready: containers start in turn. */
    active: {
      always: [
        { guard: 'isMisplaced', target: 'moving' },
        { guard: 'mustRestartAll', target: 'restartingAll' },
        { guard: 'lacksSandbox', target: 'deciding' },
        { guard: 'hasDelayedImages', actions: requestDelayedImages },
        { guard: 'hasTurn', target: 'writing' },
      ],
    },
    /** Waits for the files of the containers whose turn it is. */
    writing: {
      entry: beginWriting,
      always: { guard: 'lacksSandbox', target: 'deciding' },
      invoke: {
        id: 'files',
        src: 'host.preparePod',
        input: ({ context }) => filesOfTurn(context),
        onDone: [
          { guard: 'hasFileVariables', target: 'readingVariables' },
          { guard: 'hasDevices', target: 'preparingDevices' },
          { guard: 'hasSubPaths', target: 'bindingSubPaths' },
          { target: 'active', actions: [permitContainers, rememberPod] },
        ],
        onError: {
          target: 'backingOff',
          actions: [noteFailure, record((_, error) => podEvents.failedMakeDirectories(error.message))],
        },
      },
    },
    preparingDevices,
    readingVariables,
    withVariables,
    bindingSubPaths,
    /** A step failed: waits, then inspects the outcome. */
    backingOff: { after: { wait: 'inspecting' } },
    inspecting: { entry: observeNow, always: { guard: 'isInspected', target: 'deciding' } },
  },
});

export const podMachine = s.createMachine({
  id: 'pod',
  context: ({ input }) => initialPod(input),
  initial: 'alive',
  states: {
    alive: {
      type: 'parallel',
      on: {
        'runtime.podChanged': { actions: [handleObservation, noteFresh] },
        'runtime.sandboxChanged': { actions: handleInstance },
        'runtime.containerChanged': { actions: handleInstance },
        'runtime.podRemoved': { actions: observeNow },
        'runtime.podStale': { actions: noteStale },
        'runtime.absent': { actions: handleAbsence },
        'container.changed': { actions: [noteContainer, releaseMemory] },
        'container.wanted': { actions: noteRequest },
        'container.imageWanted': { actions: requestImage },
        'container.respawn': { actions: adoptContainers },
        'image.ready': { actions: forwardImage },
        'image.failed': { actions: forwardImage },
        'images.started': { actions: forwardImage },
        'objects.changed': { actions: noteObjects },
        'object.found': { actions: [noteObject, requestImagesAgain] },
        'csi.mounted': { actions: forwardPublished },
        'csi.started': { actions: forwardPublished },
        'node.changed': { actions: handleNode },
        'network.changed': { actions: handleNode },
        'garbage.wanted': { actions: [sendCollectorsAgain, sendNode] },
        'status.wanted': { actions: sendStatusAgain },
        'allocation.started': { actions: requestAllocation },
        'allocation.granted': { actions: handleGrant },
        'allocation.pending': { actions: notePending },
        'allocation.shared': { actions: handleShared },
        'allocation.deviceHealth': { actions: handleHealth },
        'claims.known': { actions: handleClaims },
        'claims.health': { actions: handleClaims },
        'claims.started': { actions: requestClaims },
        'xstate.error.actor.volumes': { actions: replaceVolumes },
        'prober.judged': { actions: noteVerdict },
        'prober.respawn': { actions: respawnProber },
        'log.respawn': { actions: respawnLog },
        'xstate.error.actor.*': { actions: [reapContainer, reapProber, reapLog, reapCredential] },
      },
      states: {
        life: {
          initial: 'choosing',
          states: {
            choosing: {
              always: [
                { guard: 'hasPredecessor', target: 'held' },
                { guard: 'isUninspected', target: 'unheard' },
                { guard: 'mustInspect', target: 'inspecting' },
                { guard: 'isUnclaimed', target: 'unclaimed' },
                { guard: 'isOverAndIdle', target: 'terminated' },
                { guard: 'isUnadmitted', target: 'admitting' },
                { target: 'sync' },
              ],
            },
            ...awaiting,
            admitting,
            sync: { id: 'sync', ...sync },
            terminating: { id: 'terminating', ...terminating },
            terminated: { id: 'terminated', ...terminated },
          },
        },
        observer,
        staleness,
        grouping,
        resizing,
        pinning,
        deadline,
        probing,
        logging,
      },
    },
    gone: { id: 'gone', type: 'final', entry: releaseAllocation },
  },
  output: ({ context }) => ({ uid: context.uid, restarts: nextRestarts(context) }),
});
