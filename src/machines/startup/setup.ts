/**
 * Types and helpers of the supervisor: actors, operations, failing phases, and the region of one subsystem in its
 * chart. The chart is in `kubelet.ts`, with one file of this folder for each step of the documents.
 */
import type { AgentFault, AnyStateMachine } from '../../kernel/xstate.ts';
import { AGENT_PHASE, assign, errorOf, line, outputOf, pick, setup, typed } from '../../kernel/xstate.ts';
import { csiVolumesMachine } from '../charts/csi/csi-volumes.ts';
import { imageGcMachine } from '../charts/images/image-gc.ts';
import { imagesMachine } from '../charts/images/images.ts';
import { csiNodeMachine } from '../charts/node/csi-node.ts';
import { deviceManagerMachine } from '../charts/node/devices/device-manager.ts';
import { draManagerMachine } from '../charts/node/dra/dra-manager.ts';
import { evictionMachine } from '../charts/node/eviction/eviction.ts';
import { healthzMachine } from '../charts/node/healthz.ts';
import { leaseMachine } from '../charts/node/lease.ts';
import { localServerMachine } from '../charts/node/local-server.ts';
import { nodeStatusMachine } from '../charts/node/node-status.ts';
import { oomWatcherMachine } from '../charts/node/oom-watcher.ts';
import { pluginManagerMachine } from '../charts/node/plugin-manager.ts';
import { podCIDRMachine } from '../charts/node/pod-cidr.ts';
import { runtimeStateMachine } from '../charts/node/runtime-state.ts';
import { serverMachine } from '../charts/node/server.ts';
import { shutdownMachine } from '../charts/node/shutdown/shutdown.ts';
import { objectsMachine } from '../charts/objects/objects.ts';
import { allocationMachine } from '../charts/pods/allocation/allocation.ts';
import { podConfigMachine } from '../charts/pods/config/pod-config.ts';
import { containerGcMachine } from '../charts/pods/container-gc.ts';
import { eventRecorderMachine } from '../charts/pods/events/event-recorder.ts';
import { mirrorPodsMachine } from '../charts/pods/mirror/mirror-pods.ts';
import { plegMachine } from '../charts/pods/pleg.ts';
import { podsMachine } from '../charts/pods/pods.ts';
import { rememberedPodsMachine } from '../charts/pods/remembered-pods.ts';
import { softStateMachine } from '../charts/pods/soft-state.ts';
import { statusMachine } from '../charts/pods/status/status.ts';
import { syncLoopMachine } from '../charts/pods/sync-loop.ts';
import { operations } from '../model/operations/index.ts';
import { logLines } from '../model/values/go-text.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../model/values/time.ts';
import { certificateManagerMachine } from './certificates/certificate-manager.ts';
import { authMachine } from './clients/auth.ts';
import { clientBuilderMachine } from './clients/client-builder.ts';
import { configLoaderMachine } from './configuration/config-loader.ts';
import { configReloadMachine } from './configuration/config-reload.ts';
import { containerManagerMachine } from './container-manager/container-manager.ts';
import type { EstablishedContext, KubeletEvent, KubeletInput, KubeletMachineOutput } from './context/types.ts';
import { cadvisorMachine } from './host/cadvisor.ts';
import { iptablesMachine } from './host/iptables.ts';
import { lockFileMachine } from './host/lock-file.ts';
import { nodeAddressesMachine } from './host/node-addresses.ts';
import { resolverMachine } from './host/resolver.ts';
import { watchdogMachine } from './host/watchdog.ts';
import { loggingMachine } from './logging.ts';
import { runOnceMachine } from './run-once.ts';
import { runtimeServiceMachine } from './runtime-service.ts';

/** Subsystems that the supervisor starts and restarts, in the order in which the documents create them. */
export const SUBSYSTEMS = {
  logging: loggingMachine,
  watchdog: watchdogMachine,
  lockFile: lockFileMachine,
  clientCertificate: certificateManagerMachine,
  servingCertificate: certificateManagerMachine,
  runtimeService: runtimeServiceMachine,
  runtimeState: runtimeStateMachine,
  eventRecorder: eventRecorderMachine,
  containerManager: containerManagerMachine,
  softState: softStateMachine,
  objects: objectsMachine,
  mirrorPods: mirrorPodsMachine,
  rememberedPods: rememberedPodsMachine,
  podConfig: podConfigMachine,
  images: imagesMachine,
  status: statusMachine,
  deviceManager: deviceManagerMachine,
  draManager: draManagerMachine,
  allocation: allocationMachine,
  pods: podsMachine,
  pleg: plegMachine,
  syncLoop: syncLoopMachine,
  runOnce: runOnceMachine,
  iptables: iptablesMachine,
  resolver: resolverMachine,
  nodeAddresses: nodeAddressesMachine,
  nodeStatus: nodeStatusMachine,
  lease: leaseMachine,
  csiNode: csiNodeMachine,
  csiVolumes: csiVolumesMachine,
  podCIDR: podCIDRMachine,
  containerGC: containerGcMachine,
  imageGC: imageGcMachine,
  eviction: evictionMachine,
  oomWatcher: oomWatcherMachine,
  pluginManager: pluginManagerMachine,
  shutdown: shutdownMachine,
  server: serverMachine,
  readOnlyServer: serverMachine,
  healthz: healthzMachine,
  configReload: configReloadMachine,
  localServer: localServerMachine,
  podResources: localServerMachine,
};
type SubsystemName = keyof typeof SUBSYSTEMS;

/** The metadata of a phase, for the visualizer and for `statelet why startup`. */
export interface PhaseMeta {
  /** Rows of the seed documents that this phase implements. */
  readonly steps?: string;
  readonly waitsFor?: string;
}

export const kubeletSetup = setup({
  types: typed<{
    input: KubeletInput;
    context: EstablishedContext;
    events: KubeletEvent;
    output: KubeletMachineOutput;
    meta: object;
  }>(),
  actors: {
    configLoader: configLoaderMachine,
    clientBuilder: clientBuilderMachine,
    auth: authMachine,
    cadvisor: cadvisorMachine,
    // Their combined types exceed the compiler's limit; `subsystems` of kubelet.ts types each input.
    ...(SUBSYSTEMS as Record<SubsystemName, AnyStateMachine>),
    ...pick(
      operations,
      'host.permissions',
      'host.readable',
      'host.hostname',
      'host.addresses',
      'host.readFile',
      'host.setOomScoreAdj',
      'host.setOpenFilesLimit',
      'host.makeDirectories',
      'host.notify',
      'images.registerProviders',
    ),
  },
  delays: Object.fromEntries(
    Object.keys(SUBSYSTEMS).map((id) => [
      `restart.${id}`,
      ({ context }: { context: EstablishedContext }) => restartDelay(context.crashes[id] ?? 1),
    ]),
  ) as Record<string, (args: { context: EstablishedContext }) => number>,
});

type Failing = {
  readonly type: string;
  readonly error?: unknown;
  readonly message?: string;
  readonly output?: unknown;
};

export function messageOf(event: Failing): string {
  if (event.error) return errorOf(event).message;
  if (event.message) return event.message;
  return outputOf<{ message?: string } | undefined>(event)?.message ?? 'unknown error';
}

/** The transition of a failed phase: upstream's message, exit code 1, and the phase's name. */
export const failing = (phase: string) => ({
  target: '#kubelet.failed' as const,
  actions: assign<EstablishedContext, Failing, undefined, KubeletEvent, never>(({ event }) => ({
    failure: { phase, message: `failed to run Kubelet: ${messageOf(event)}`, exitCode: 1 },
  })),
});

/** The exit code of a Go program that panics. */
const PANIC_EXIT_CODE = 2;

/** A part of the process failed and cannot be restored: the node ends, and the service manager restarts it. */
export const faulted = {
  target: '#kubelet.failed' as const,
  actions: assign<EstablishedContext, AgentFault, undefined, KubeletEvent, never>(({ event: { error, stack } }) => {
    const message = `uncaught fault: ${error.name}: ${error.message}`;
    const lines = logLines('The agent ends by an uncaught fault', [message, ...stack].join('\n    '));
    return { failure: { phase: AGENT_PHASE, message, exitCode: PANIC_EXIT_CODE, lines } };
  }),
};

/** A port of the API that cannot be opened ends the node, with upstream's text. */
export const notServing = {
  target: '#kubelet.failed' as const,
  actions: assign<
    EstablishedContext,
    { readonly type: string; readonly message: string },
    undefined,
    KubeletEvent,
    never
  >(({ event: { message } }) => ({
    failure: { phase: 'serving', message, exitCode: 1, lines: logLines('Failed to listen and serve', message) },
  })),
};

/** A phase that only warns: upstream logs the error and continues. */
export const warning = (text: string) =>
  line<EstablishedContext, Failing, undefined, KubeletEvent>('error', ({ event }) => [text, { err: messageOf(event) }]);

/** The id of a subsystem is free only after the step that stopped it. */
const RENEW_MS = 1;

export const restartDelay = (crashes: number): number => pauseMs(RESPAWN_BACK_OFF, Math.max(0, crashes - 1));

type Crash = { readonly type: string; readonly error: unknown };

const recordCrash = (id: string) =>
  assign<EstablishedContext, Crash, undefined, KubeletEvent, never>(({ context }) => ({
    crashes: { ...context.crashes, [id]: (context.crashes[id] ?? 0) + 1 },
  }));

const logCrash = (id: string) =>
  line<EstablishedContext, Crash, undefined, KubeletEvent>('error', ({ context, event }) => [
    'Subsystem crashed and will be started again',
    { subsystem: id, err: errorOf(event).message, restartInMs: restartDelay(context.crashes[id] ?? 1) },
  ]);

/**
 * The region of one subsystem in the supervisor's chart: absent, running, or crashed and waiting for its restart. Other
 * actors find it by `systemId`, which defaults to the id.
 *
 * A subsystem begins when its phase of starting raises `create.<id>`. When it crashes, its children are already stopped
 * (`src/kernel/atomic.ts`); it restarts from its input after a back-off and observes everything again. When its
 * configuration changes (`reload.<id>`), the same happens at once.
 * Invariant: a crash of one subsystem never stops another.
 */
export function subsystem<Id extends string>(
  id: Id,
  input: (args: { context: EstablishedContext }) => unknown,
  systemId: string = id,
) {
  return {
    initial: 'absent' as const,
    states: {
      absent: { on: { [`create.${id}`]: 'running' } },
      running: {
        on: { [`reload.${id}`]: 'renewing' },
        invoke: {
          id,
          src: id,
          systemId,
          input,
          onError: { target: 'crashed', actions: [recordCrash(id), logCrash(id)] },
        },
      },
      renewing: { after: { [RENEW_MS]: 'running' } },
      crashed: { after: { [`restart.${id}`]: 'running' } },
    },
  };
}
