/**
 * The supervisor: `run()` -> `RunKubelet` -> `createAndInitKubelet` -> `startKubelet` -> `Run`, as one chart.
 *
 * Decides: what starts next, the consequence of a failed step, when a crashed subsystem restarts, when the node ends.
 * Owns: flags, configuration, the node's identity, the facts established by the steps of starting, and the subsystems.
 * Hears: the answer of each step's subsystem; `signal.received` and `agent.faulted` from the process;
 *   `lockFile.contended`, `certificate.failed`, `certificate.lost`, `oomWatcher.failed` and `server.failed`, which end
 *   the node; `configReload.applied`, `resolver.changed`, `addresses.changed`, `hostAddresses.changed`.
 * Asks: the operations of the small steps (host name, folders, limits, `host.notify`); all others belong to subsystems.
 * Invariants:
 *   S1 the phases run in the order of the documents; each is a state, not a boolean, and names what it waits for.
 *   S2 a step whose failure upstream only logs never ends the node; a step that is fatal upstream always does, with
 *      upstream's text.
 *   S3 the end of the node ends no pod: containers belong to the runtime.
 *   S4 a crash of one subsystem never stops another.
 * Upstream: cmd/kubelet/app/server.go, pkg/kubelet/kubelet.go. Seeds: S001 to S244.
 */
import { assign, enqueueActions, line, required, sendTo, to } from '../../kernel/xstate.ts';
import { commandFailed, logEntries } from '../configuration/resolve.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import type { NodeChanged } from '../model/settings/node-settings.ts';
import { millisecondsOf } from '../model/values/time.ts';
import { clientCertificateInput } from './clients/client-builder.ts';
import { command } from './command.ts';
import { containerManagerInput } from './container-manager/policy.ts';
import { deriveSettings } from './context/derive-settings.ts';
import type { EstablishedContext, KubeletContext, KubeletInput } from './context/types.ts';
import { logForm } from './logging.ts';
import { run } from './run.ts';
import { runKubelet } from './run-kubelet.ts';
import { apiPort, localSocket, podResourcesSocket, readOnlyPort } from './server-ports.ts';
import { failing, faulted, kubeletSetup, notServing, subsystem } from './setup.ts';
import { runOncePhases, startKubelet } from './start-kubelet.ts';
import {
  attachInput,
  clientBuilderInput,
  nodeStatusInput,
  oomWatcherInput,
  servingCertificateInput,
  volumeHealthInput,
} from './subsystem-inputs.ts';

/** How long STOPPING=1 may take before the node ends without it. */
const STOPPING_NOTICE_MS = 1_000;

const settings = ({ context }: { context: EstablishedContext }) => context.settings;

/** In a node that runs its pods once, sources and `pleg` publish to the actor that runs them. */
const published = ({ context }: { context: EstablishedContext }) => ({
  ...context.settings,
  ...(context.input.runOnce ? { receiver: 'syncLoop' } : {}),
});

/** The input of each subsystem; it requests other facts itself. */
const subsystems = {
  logging: subsystem('logging', ({ context }) => logForm(context.config.logging)),
  watchdog: subsystem('watchdog', ({ context }) => ({
    syncFrequencyMs: millisecondsOf(context.config.syncFrequency),
  })),
  iptables: subsystem('iptables', () => ({})),
  resolver: subsystem('resolver', ({ context }) => ({
    path: context.config.resolvConf,
    nodeName: context.node.nodeName,
    text: context.resolvConf,
    hasClusterDomain: (context.config.clusterDomain ?? '') !== '',
  })),
  nodeAddresses: subsystem('nodeAddresses', ({ context }) => ({
    ...context.node,
    nodeIP: context.flags.nodeIP,
    cloudProvider: context.flags.cloudProvider,
    periodMs: millisecondsOf(context.config.nodeStatusUpdateFrequency),
  })),
  configReload: subsystem('configReload', ({ context }) => ({
    argv: context.input.argv,
    version: context.input.version,
    nodeName: context.node.nodeName,
    paths: [context.flags.config, context.flags.configDir].filter((path) => path !== ''),
    config: context.config,
  })),
  lockFile: subsystem('lockFile', ({ context }) => ({
    path: context.flags.lockFile,
    exitOnContention: context.flags.exitOnLockContention,
  })),
  clientCertificate: subsystem('clientCertificate', ({ context }) =>
    clientCertificateInput(
      clientBuilderInput(context),
      false,
      hasBehavior(context.input, 'certificatesAsKubelet') ? { isNoneWhenExpired: true } : {},
    ),
  ),
  servingCertificate: subsystem('servingCertificate', ({ context }) => servingCertificateInput(context)),
  runtimeState: subsystem('runtimeState', ({ context }) => ({ behavior: context.input.behavior })),
  runtimeService: subsystem('runtimeService', ({ context }) => ({
    endpoint: context.config.containerRuntimeEndpoint,
    imageEndpoint: context.config.imageServiceEndpoint ?? '',
    endpointNamed: context.endpointNamed,
    requestTimeoutMs: context.requestTimeoutMs,
    rootDir: context.flags.rootDir,
  })),
  eventRecorder: subsystem('eventRecorder', ({ context }) => ({
    nodeName: context.node.nodeName,
    publishes: context.flags.kubeconfig !== '',
    ofEachType: hasBehavior(context.input, 'eventsOfEachType'),
    annotates: hasBehavior(context.input, 'evictionAsKubelet'),
  })),
  objects: subsystem('objects', settings),
  mirrorPods: subsystem('mirrorPods', settings),
  rememberedPods: subsystem('rememberedPods', settings),
  containerManager: subsystem('containerManager', ({ context }) => containerManagerInput(context)),
  softState: subsystem('softState', settings),
  podConfig: subsystem('podConfig', published),
  images: subsystem('images', settings),
  status: subsystem('status', ({ context }) => ({
    ...context.settings,
    ...(context.input.runOnce ? { follower: 'syncLoop' } : {}),
  })),
  allocation: subsystem('allocation', ({ context }) => ({ settings: context.settings })),
  pods: subsystem('pods', ({ context }) => ({ settings: context.settings })),
  pleg: subsystem('pleg', published),
  syncLoop: subsystem('syncLoop', settings),
  runOnce: subsystem(
    'runOnce',
    ({ context }) => ({
      staticPodPath: context.config.staticPodPath,
      retries: required(context.input.runOnce, 'the settings of one run').retries,
    }),
    'syncLoop',
  ),
  nodeStatus: subsystem('nodeStatus', ({ context }) => nodeStatusInput(context)),
  lease: subsystem('lease', ({ context }) => ({
    behavior: context.input.behavior,
    nodeName: context.node.nodeName,
    durationSeconds: context.config.nodeLeaseDurationSeconds,
  })),
  csiNode: subsystem('csiNode', ({ context }) => ({
    nodeName: context.node.nodeName,
    behavior: context.input.behavior,
  })),
  csiVolumes: subsystem('csiVolumes', ({ context }) => ({
    rootDir: context.settings.rootDir,
    nodeName: context.node.nodeName,
    behavior: context.input.behavior,
    ...volumeHealthInput(context.config),
    ...attachInput(context),
  })),
  podCIDR: subsystem('podCIDR', ({ context }) => ({
    behavior: context.input.behavior,
    podCIDR: context.config.podCIDR,
  })),
  containerGC: subsystem('containerGC', settings),
  imageGC: subsystem('imageGC', settings),
  eviction: subsystem('eviction', settings),
  deviceManager: subsystem('deviceManager', ({ context }) => ({
    behavior: context.input.behavior,
    folder: `${context.settings.rootDir}/device-plugins`,
  })),
  draManager: subsystem('draManager', ({ context }) => ({
    rootDir: context.settings.rootDir,
    nodeName: context.node.nodeName,
    inCluster: context.clients.mode === 'cluster',
  })),
  pluginManager: subsystem('pluginManager', ({ context }) => ({
    behavior: context.input.behavior,
    path: `${context.settings.rootDir}/plugins_registry`,
    inCluster: context.clients.mode === 'cluster',
  })),
  shutdown: subsystem('shutdown', settings),
  oomWatcher: subsystem('oomWatcher', ({ context }) => oomWatcherInput(context)),
  server: subsystem('server', ({ context }) => apiPort(context)),
  readOnlyServer: subsystem('readOnlyServer', ({ context }) => readOnlyPort(context)),
  localServer: subsystem('localServer', ({ context }) => localSocket(context)),
  podResources: subsystem('podResources', ({ context }) => podResourcesSocket(context)),
  healthz: subsystem('healthz', ({ context }) => ({
    address: context.config.healthzBindAddress,
    port: context.config.healthzPort,
  })),
};

/** Settings are sent to the pods: only their actors know the node's decisions about them. */
const sendPods = kubeletSetup.enqueueActions(({ context, enqueue }) => {
  const changed: NodeChanged = { type: 'node.changed', settings: context.settings };
  enqueue.sendTo(to('pods'), changed);
});

/** Other subsystems that read a changed field restart with it, as after a crash; no container is touched. */
const applyConfiguration = kubeletSetup.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'configReload.applied') return;
  const { config, readers } = event;
  enqueue.assign({ config, settings: deriveSettings({ ...context, config }) });
  if (readers.includes('pods')) enqueue(sendPods);
  for (const id of readers) if (id !== 'pods') enqueue.raise({ type: `reload.${id}` });
});

/** A signal ended the node before the pods were ready or had ended. */
const isUnfinished = ({ input, podResults }: EstablishedContext): boolean =>
  input.runOnce !== undefined && podResults === null;

const alive = kubeletSetup.createStateConfig({
  type: 'parallel',
  on: {
    'signal.received': [
      {
        guard: ({ event }) => event.signal === 'SIGHUP',
        actions: sendTo(to('configReload'), { type: 'reload.requested' }),
      },
      {
        target: 'stopping',
        actions: line('info', ({ event }) => ['Received signal; stopping', { signal: event.signal }]),
      },
    ],
    'configReload.applied': { actions: applyConfiguration },
    'resolver.changed': {
      actions: [
        assign(({ context, event }) => {
          const resolvConf = event.text;
          return { resolvConf, settings: deriveSettings({ ...context, resolvConf }) };
        }),
        sendPods,
      ],
    },
    'addresses.changed': {
      actions: [
        assign(({ context, event: { nodeIPs } }) => {
          const { addressProblem: _solved, ...rest } = context.node;
          const node = { ...rest, nodeIPs };
          return { node, settings: deriveSettings({ ...context, node }) };
        }),
        sendPods,
        sendTo(to('nodeStatus'), ({ context }) => ({
          type: 'node.addressed',
          addresses: nodeStatusInput(context).facts.addresses,
        })),
      ],
    },
    'hostAddresses.changed': {
      actions: [
        assign(({ context, event: { hostAddresses } }) => {
          const node = { ...context.node, hostAddresses };
          return { node, settings: deriveSettings({ ...context, node }) };
        }),
        sendPods,
      ],
    },
    'agent.faulted': faulted,
    'certificate.failed': failing('certificates'),
    'certificate.lost': failing('certificates'),
    'server.failed': notServing,
    'oomWatcher.failed': failing('runKubelet.oomWatcher'),
    'draManager.failed': failing('runKubelet.createAndInitKubelet.claims'),
    'lockFile.contended': {
      target: 'stopping',
      actions: line('info', 'Caught inotify event on the lock file; stopping'),
    },
  },
  states: {
    startup: { initial: 'command', states: { command, run, runKubelet, startKubelet, runOnce: runOncePhases } },
    ...(subsystems as Record<string, object>),
  },
});

/** The context before the first phase. */
const nothingEstablished = (input: KubeletInput): KubeletContext => ({
  input,
  flags: null,
  config: null,
  endpointNamed: false,
  ownsCertificate: false,
  pullsByServiceAccount: false,
  requestTimeoutMs: 0,
  node: null,
  clients: null,
  runtime: null,
  machineInfo: null,
  cgroups: null,
  resources: null,
  resolvConf: '',
  hostsFile: '',
  settings: null,
  failure: null,
  podResults: null,
  crashes: {},
});

export const kubeletMachine = kubeletSetup.createMachine({
  id: 'kubelet',
  // The phases run in order (S1): none reads a fact before the step that establishes it.
  context: ({ input }) => nothingEstablished(input) as EstablishedContext,
  initial: 'alive',
  states: {
    alive,
    stopping: {
      invoke: {
        id: 'notifyStopping',
        src: 'host.notify',
        input: { state: 'STOPPING=1' },
        onDone: 'stopped',
        onError: 'stopped',
      },
      after: { [STOPPING_NOTICE_MS]: 'stopped' },
    },
    stopped: { id: 'kubelet.stopped', type: 'final' },
    failed: {
      id: 'kubelet.failed',
      type: 'final',
      entry: enqueueActions(({ context, enqueue }) => {
        const err = context.failure?.message ?? '';
        const entries = logEntries(context.failure?.lines ?? commandFailed(err).lines);
        const last = entries.pop();
        for (const { text, klog } of entries) enqueue(line('error', [text, { klog }]));
        enqueue(line('error', ['command failed', { err, phase: context.failure?.phase, klog: last?.klog }]));
      }),
    },
  },
  output: ({ context }) => ({
    exitCode: context.failure?.exitCode ?? (isUnfinished(context) ? 1 : 0),
    failure: context.failure,
    ...(context.input.runOnce ? { podResults: context.podResults } : {}),
  }),
});
