/**
 * The steps of a start that a journal shows, by the names in the documents' promises.
 *
 * They are in the order of this node; each promise of a document names two of them.
 */
import type { Step } from './step.ts';

const SUPERVISOR = 'kubelet';
const subsystem = (id: string) => `${SUPERVISOR}/${id}`;

/** The supervisor starts a subsystem. */
const starts = (id: string): Step => ({ sent: 'xstate.init', from: SUPERVISOR, to: subsystem(id) });
/** A subsystem sends an event to the supervisor. */
const sends = (id: string, event: string): Step => ({ sent: event, from: subsystem(id), to: SUPERVISOR });
const asks = (request: string, operation: string): Step => ({ asked: operation, at: subsystem(request) });
const hears = (request: string, operation: string): Step => ({ answered: operation, at: subsystem(request) });
const logs = (text: string, at = SUPERVISOR): Step => ({ logged: text, at });
const only = (condition: string, step: Step): Step => ({ ...step, only: condition });

const WITH_FILE = 'with --config';
const WITH_LOCK = 'with --lock-file';
const WITH_HEALTHZ = 'with a healthz port';
const WITH_SERVER = 'unless --enable-server is off';
const WITH_READ_ONLY = 'with a read-only port';
const RUN_ONCE = 'of statelet run-once';

export const STEPS = {
  'flags are parsed': starts('configLoader'),
  'the configuration file is read': only(WITH_FILE, asks('configLoader/readFile', 'host.readConfiguration')),
  'the configuration is valid': sends('configLoader', 'xstate.done.actor.configLoader'),
  'permissions are checked': asks('permissions', 'host.permissions'),
  'the version is said': logs('Kubelet version'),
  'the lock file is asked for': only(WITH_LOCK, asks('lockFile/acquireLock', 'host.acquireLock')),
  'the lock is held': only(WITH_LOCK, sends('lockFile', 'lockFile.acquired')),
  'contention is watched': only('with --exit-on-lock-contention', asks('lockFile/watchLock', 'host.watchLock')),
  'the host name is known': hears('hostname', 'host.hostname'),
  'standalone mode is detected': logs('Standalone mode, no API client', subsystem('clientBuilder')),
  'clients are built or absent': sends('clientBuilder', 'xstate.done.actor.clientBuilder'),
  'auth is built': sends('auth', 'xstate.done.actor.auth'),
  'the runtime is connected': hears('runtimeService/connect', 'runtime.connect'),
  'the cgroup driver is asked': asks('runtimeService/runtimeConfig', 'cri.runtimeConfig'),
  'the runtime service is ready': sends('runtimeService', 'runtimeService.ready'),
  'cadvisor is created': starts('cadvisor'),
  'machine info is known': sends('cadvisor', 'xstate.done.actor.cadvisor'),
  'the event recorder is set up': starts('eventRecorder'),
  'the container manager is begun': starts('containerManager'),
  'the container manager is created': sends('containerManager', 'containerManager.created'),
  'the OOM score is applied': asks('oomScore', 'host.setOomScoreAdj'),
  'node addresses are resolved': asks('addresses', 'host.addresses'),
  'the root directory is said': logs('Using root directory'),
  'the resolver file is read': asks('resolvConf', 'host.readFile'),
  'PodConfig is made': starts('podConfig'),
  'image back-off is made': starts('images'),
  'the status manager is made': starts('status'),
  'pod workers are made': starts('pods'),
  'the birth cry is sent': { sent: 'event.recorded', from: SUPERVISOR, to: subsystem('eventRecorder') },
  'container GC starts': starts('containerGC'),
  'image GC starts': starts('imageGC'),
  'the rlimit is set': asks('openFilesLimit', 'host.setOpenFilesLimit'),
  'no API server is said': only(
    'of a node that runs on without an API server',
    logs('No API server defined - no node status update will be sent'),
  ),
  'data directories are asked for': asks('dataDirectories', 'host.makeDirectories'),
  'data directories exist': hears('dataDirectories', 'host.makeDirectories'),
  'the container logs directory is asked for': asks('containerLogs', 'host.makeDirectories'),
  'the start is said': logs('Started kubelet'),
  'the kubelet server starts': only(WITH_SERVER, starts('server')),
  'the read-only server starts': only(WITH_READ_ONLY, starts('readOnlyServer')),
  'healthz starts': only(WITH_HEALTHZ, starts('healthz')),
  'READY=1 is sent': asks('notifyReady', 'host.notify'),
  'run blocks': { in: 'alive.startup.startKubelet.serving.blocked', at: SUPERVISOR },
  'PLEG starts': starts('pleg'),
  'the sync loop starts': starts('syncLoop'),
  'the runtime is waited for': { in: 'alive.startup.startKubelet.kubeletRun.waitingForRuntime', at: SUPERVISOR },
  'runtime-dependent modules start': {
    sent: 'containerManager.start',
    from: SUPERVISOR,
    to: subsystem('containerManager'),
  },
  'the container manager is started': sends('containerManager', 'containerManager.started'),
  'pods are synchronised': { sent: 'runtime.up', from: SUPERVISOR, to: subsystem('syncLoop') },
  'pods are run once': only(RUN_ONCE, starts('runOnce')),
  'the pods have run': only(RUN_ONCE, sends('runOnce', 'runOnce.finished')),
} as const satisfies Record<string, Step>;

/** Steps that a node with run-once does not have: it has no servers and no loops. */
export const NOT_IN_RUN_ONCE = [
  'the start is said',
  'READY=1 is sent',
  'run blocks',
  'the sync loop starts',
  'the runtime is waited for',
  'pods are synchronised',
] as const;

export type StepName = keyof typeof STEPS;
/** Every step in the order of the table. */
export const STEP_NAMES = Object.keys(STEPS) as StepName[];
