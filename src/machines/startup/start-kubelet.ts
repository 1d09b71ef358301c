/**
 * `startKubelet` and `Kubelet.Run`: from here two sequences run in parallel, as upstream's two goroutines.
 *
 * `kubeletRun` leads to synchronising pods; `serving` is the rest of `run()`: healthz, READY=1, and waiting for the
 * end.
 * A node that runs its pods once has some of these phases as well, and an end of its own: no servers and no loops, only
 * the folders, the runtime, and the wait for the pods.
 * Steps: S209 to S244, S110 to S114, S131.
 */
import { assign, enqueueActions, errorOf, line, raise, sendTo, to } from '../../kernel/xstate.ts';
import { gatesOf } from '../configuration/fields/feature-gates.ts';
import type { NodeFolder } from '../model/operations/host.ts';
import { nodeEvent } from '../model/pods/pod-messages.ts';
import { nodeEvents } from '../model/reasons/reasons.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import type { EstablishedContext, Failure } from './context/types.ts';
import { failing, kubeletSetup, messageOf, warning } from './setup.ts';

/**
 * The folders of the node, with upstream's modes and names. The embedded runtime has no mount namespaces, so no folder
 * is made shared for it.
 */
function dataDirectories({ settings, config, runtime }: EstablishedContext): readonly NodeFolder[] {
  const { rootDir, podLogsDir } = settings;
  const folder = (path: string, what: string, mode = 0o750) => ({ path, mode, what });
  return [
    { ...folder(rootDir, 'root directory'), ...(runtime.embedded ? {} : { shared: true }) },
    folder(podLogsDir, `pod logs root directory ${JSON.stringify(podLogsDir)}`),
    folder(`${rootDir}/pods`, 'pods directory'),
    folder(`${rootDir}/plugins`, 'plugins directory'),
    folder(`${rootDir}/plugins_registry`, 'plugins registry directory'),
    folder(`${rootDir}/pod-resources`, 'podresources directory'),
    ...(gatesOf(config)('ContainerCheckpoint')
      ? [folder(`${rootDir}/checkpoints`, 'checkpoint directory', 0o700)]
      : []),
  ];
}

/** Containers run without this folder too: only the links for log collectors are missing. */
const containerLogs = (next: string) =>
  kubeletSetup.createStateConfig({
    meta: { steps: 'S234', waitsFor: 'the folder of container logs' },
    invoke: {
      id: 'containerLogs',
      src: 'host.makeDirectories',
      input: ({ context }) => ({ directories: [{ path: context.settings.containerLogsDir, mode: 0o755 }] }),
      onDone: next,
      onError: { target: next, actions: warning('Failed to create the folder of container log links') },
    },
  });

/** Passes configured addresses of pods to the runtime if there is no API server; else a part of the node does. */
const createPodCIDR = kubeletSetup.enqueueActions(({ context, enqueue }) => {
  const { clients, config, input } = context;
  const isWanted = clients.mode === 'standalone' && config.podCIDR !== '';
  if (isWanted && hasBehavior(input, 'podCIDROfConfiguration')) enqueue.raise({ type: 'create.podCIDR' });
});

const startContainerManager = kubeletSetup.sendTo(to('containerManager'), { type: 'containerManager.start' });

/** The container manager gets the message again after a crash. */
const startContainerManagerAgain = { 'containerManager.created': { actions: startContainerManager } } as const;

const CONTAINER_MANAGER_PHASE = {
  meta: { steps: 'S237-S241', waitsFor: 'the container manager to start' },
  entry: startContainerManager,
} as const;

const startServers = kubeletSetup.enqueueActions(({ context, enqueue }) => {
  const { enableServer, readOnlyPort } = context.config;
  if (enableServer) enqueue.raise({ type: 'create.server' });
  if (readOnlyPort > 0) enqueue.raise({ type: 'create.readOnlyServer' });
  enqueue.raise({ type: 'create.podResources' });
  enqueue.raise({ type: 'create.localServer' });
});

const servesHealthz = ({ context }: { context: EstablishedContext }) => context.config.healthzPort > 0;

/** The end of the node also ends the event recorder: the time for its last event. */
const LAST_EVENT_MS = 20;

/** The embedded runtime has no pod network: iptables has no packets of its pods. */
const usesIptables = ({ config, runtime }: EstablishedContext): boolean =>
  config.makeIPTablesUtilChains && !runtime.embedded;

const isInCluster = ({ clients }: EstablishedContext): boolean => clients.mode === 'cluster';

/** The subsystems that represent the node in the cluster, in upstream's order: status, then lease. */
const NODE_PARTS = ['nodeStatus', 'lease', 'csiNode', 'csiVolumes', 'podCIDR'] as const;

const kubeletRun = kubeletSetup.createStateConfig({
  initial: 'initializingModules',
  states: {
    initializingModules: {
      meta: { steps: 'S216, S217, S219, S233-S235', waitsFor: "the node's folders" },
      entry: enqueueActions(({ context, enqueue }) => {
        if (!isInCluster(context)) enqueue(line('warn', 'No API server defined - no node status update will be sent'));
      }),
      invoke: {
        id: 'dataDirectories',
        src: 'host.makeDirectories',
        input: ({ context }) => ({ directories: dataDirectories(context) }),
        onDone: 'containerLogs',
        onError: {
          target: 'reportingFailure',
          actions: [
            warning('Failed to initialize internal modules'),
            sendTo(to('eventRecorder'), ({ context, event }) =>
              nodeEvent(context.node.nodeName, nodeEvents.setupFailed(errorOf(event).message)),
            ),
            failing('startKubelet.initializingModules').actions,
          ],
        },
      },
    },
    reportingFailure: {
      meta: { steps: 'S219', waitsFor: 'the event of the failure to be recorded' },
      after: { [LAST_EVENT_MS]: '#kubelet.failed' },
    },
    containerLogs: containerLogs('startingLoops'),
    startingLoops: {
      meta: { steps: 'S220-S232' },
      entry: [
        enqueueActions(({ context, enqueue }) => {
          if (usesIptables(context)) enqueue.raise({ type: 'create.iptables' });
        }),
        raise({ type: 'create.resolver' }),
        enqueueActions(({ context, enqueue }) => {
          if (hasBehavior(context.input, 'addressesFollowed')) enqueue.raise({ type: 'create.nodeAddresses' });
        }),
        enqueueActions(({ context, enqueue }) => {
          if (isInCluster(context)) for (const id of NODE_PARTS) enqueue.raise({ type: `create.${id}` });
        }),
        createPodCIDR,
        raise({ type: 'create.pleg' }),
        raise({ type: 'create.syncLoop' }),
        line('info', 'Starting kubelet main sync loop'),
      ],
      always: 'waitingForRuntime',
    },
    waitingForRuntime: {
      meta: { steps: 'S236', waitsFor: 'RuntimeReady' },
      on: { 'runtimeState.up': 'runtimeDependentModules' },
    },
    runtimeDependentModules: {
      ...CONTAINER_MANAGER_PHASE,
      on: {
        ...startContainerManagerAgain,
        'containerManager.started': 'synchronizing',
        'containerManager.failed': {
          target: '#kubelet.failed',
          actions: [
            warning('Failed to start ContainerManager'),
            failing('startKubelet.runtimeDependentModules').actions,
          ],
        },
      },
    },
    synchronizing: {
      meta: { steps: 'S239, S241-S244' },
      entry: enqueueActions(({ context, enqueue }) => {
        if (context.settings.eviction !== undefined) enqueue.raise({ type: 'create.eviction' });
        enqueue.raise({ type: 'create.pluginManager' });
        if (context.settings.shutdown !== undefined) enqueue.raise({ type: 'create.shutdown' });
      }),
      initial: 'up',
      on: startContainerManagerAgain,
      states: {
        up: {
          entry: [sendTo(to('syncLoop'), { type: 'runtime.up' }), sendTo(to('watchdog'), { type: 'sync.going' })],
          on: {
            'runtimeState.down': {
              target: 'down',
              actions: sendTo(to('syncLoop'), ({ event }) => ({ type: 'runtime.down', errors: event.errors })),
            },
            'syncLoop.started': { actions: sendTo(to('syncLoop'), { type: 'runtime.up' }) },
          },
        },
        down: {
          meta: { waitsFor: 'the runtime to be up again' },
          entry: sendTo(to('watchdog'), { type: 'sync.halted' }),
          on: { 'runtimeState.up': 'up' },
        },
      },
    },
  },
});

const serving = kubeletSetup.createStateConfig({
  initial: 'started',
  states: {
    started: {
      meta: { steps: 'S132' },
      entry: line('info', 'Started kubelet'),
      always: 'servers',
    },
    servers: {
      meta: { steps: 'S210-S212' },
      entry: [startServers, raise({ type: 'create.done' })],
      on: { 'create.done': [{ guard: servesHealthz, target: 'healthz' }, { target: 'notifyingReady' }] },
    },
    healthz: {
      meta: { steps: 'S110-S111', waitsFor: 'the healthz port' },
      entry: [raise({ type: 'create.healthz' }), raise({ type: 'create.done' })],
      on: { 'create.done': 'notifyingReady' },
    },
    notifyingReady: {
      meta: { steps: 'S113', waitsFor: 'the service manager to take READY=1' },
      invoke: {
        id: 'notifyReady',
        src: 'host.notify',
        input: { state: 'READY=1' },
        onDone: 'blocked',
        onError: { target: 'blocked', actions: warning('Failed to notify the service manager') },
      },
    },
    // The goal of starting: from here only a signal or contention of the lock file ends the node.
    blocked: { meta: { steps: 'S114' }, entry: raise({ type: 'create.configReload' }) },
  },
});

export const startKubelet = kubeletSetup.createStateConfig({
  type: 'parallel',
  states: { kubeletRun, serving },
});

const failureOf = (phase: string, text: string): Failure => ({
  phase: `runOnce.${phase}`,
  message: `failed to run Kubelet: runonce failed: ${text}`,
  exitCode: 1,
});

export const runOncePhases = kubeletSetup.createStateConfig({
  initial: 'dataDirectories',
  states: {
    dataDirectories: {
      meta: { steps: 'S131, S233', waitsFor: "the node's folders" },
      invoke: {
        id: 'dataDirectories',
        src: 'host.makeDirectories',
        input: ({ context }) => ({ directories: dataDirectories(context) }),
        onDone: 'containerLogs',
        onError: {
          target: '#kubelet.failed',
          actions: assign({ failure: ({ event }) => failureOf('dataDirectories', messageOf(event)) }),
        },
      },
    },
    containerLogs: containerLogs('waitingForRuntime'),
    waitingForRuntime: {
      meta: { steps: 'S131, S236', waitsFor: 'RuntimeReady' },
      entry: [createPodCIDR, raise({ type: 'create.pleg' })],
      on: { 'runtimeState.up': 'runtimeDependentModules' },
    },
    runtimeDependentModules: {
      ...CONTAINER_MANAGER_PHASE,
      on: {
        ...startContainerManagerAgain,
        'containerManager.started': 'pods',
        'containerManager.failed': {
          target: '#kubelet.failed',
          actions: assign({ failure: ({ event }) => failureOf('runtimeDependentModules', event.message) }),
        },
      },
    },
    pods: {
      meta: { steps: 'S131', waitsFor: 'each pod to be ready or to end' },
      entry: raise({ type: 'create.runOnce' }),
      on: {
        ...startContainerManagerAgain,
        'runOnce.finished': [
          {
            guard: ({ event }) => event.error !== '',
            target: '#kubelet.failed',
            actions: enqueueActions(({ event, enqueue }) => {
              const { results, error } = event;
              enqueue.assign({ podResults: results, failure: failureOf('pods', error) });
            }),
          },
          {
            target: '#kubelet.stopped',
            actions: [assign({ podResults: ({ event }) => event.results }), line('info', 'Started kubelet as runonce')],
          },
        ],
      },
    },
  },
});
