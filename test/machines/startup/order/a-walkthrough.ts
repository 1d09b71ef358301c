/**
 * The order in seed A: a walk through the code of v1.23 from `main()` to `syncLoop()`, function by function.
 *
 * This file has only the promises of that document; for disagreements with others see `contradictions.ts`.
 */
import { inOrder, type NotHere, type OrderDocument, type Promised } from './document.ts';

const command: readonly Promised[] = inOrder(
  ['flags are parsed', 'S007', 'the command parses its own arguments first'],
  ['the configuration file is read', 'S020', 'the file is loaded after the flags name it'],
  ['the configuration is valid', 'S022', 'what flags and file say together is validated'],
  ['permissions are checked', 'S028', 'the last thing that the command does before Run'],
  ['the version is said', 'S031', 'Run comes after everything of the command'],
);

const run: readonly Promised[] = inOrder(
  ['the version is said', 'S042', 'Run begins run'],
  ['the lock file is asked for', 'S047', 'the lock comes before anything is built'],
  ['the lock is held', 'S048', 'nothing goes on without it'],
  ['the host name is known', 'S054', 'the node has its name before clients and recorder'],
  ['standalone mode is detected', 'S056', 'clients are absent in standalone mode'],
  ['clients are built or absent', 'S059', 'clients come before auth, which uses them'],
  ['auth is built', 'S064', 'auth comes before the cgroup roots'],
  ['cadvisor is created', 'S070', 'cAdvisor comes after the cgroup roots'],
  ['the event recorder is set up', 'S073', 'the recorder is one of the things the container manager is given'],
  ['the container manager is created', 'S102', 'the container manager comes after recorder and cAdvisor'],
  ['the OOM score is applied', 'S105', 'the score comes before RunKubelet'],
  ['node addresses are resolved', 'S116', 'RunKubelet begins with the addresses'],
);

const runKubelet: readonly Promised[] = inOrder(
  ['node addresses are resolved', 'S118', 'a bad address is refused before anything is created'],
  ['the root directory is said', 'S124', 'the root directory is fixed before parts are made in it'],
  ['PodConfig is made', 'S142', 'the sources of pods are the first part of NewMainKubelet'],
  ['the status manager is made', 'S169', 'managers come after the kubelet object'],
  ['pod workers are made', 'S175', 'workers are among the last'],
  ['the birth cry is sent', 'S134', 'it is sent when everything is made'],
  ['container GC starts', 'S135', 'garbage collection starts after the birth cry'],
  ['image GC starts', 'S135', 'images are collected after containers'],
  ['the rlimit is set', 'S130', 'the limit is set when the kubelet is created'],
  ['the start is said', 'S132', 'startKubelet comes last in RunKubelet'],
  ['the kubelet server starts', 'S210', 'startKubelet starts it beside the rest'],
  ['the read-only server starts', 'S211', 'it comes after the server with TLS'],
  ['healthz starts', 'S110', 'healthz starts when RunKubelet has returned'],
  ['READY=1 is sent', 'S113', 'the service manager hears of it after healthz'],
  ['run blocks', 'S114', 'then run only waits'],
);

const kubeletRun: readonly Promised[] = [
  ...inOrder(
    ['the rlimit is set', 'S130', 'Run of the kubelet begins when the kubelet is created'],
    ['data directories are asked for', 'S233', 'modules that need no runtime start first'],
    ['data directories exist', 'S233', 'the folders are there before anything writes to them'],
    ['the container logs directory is asked for', 'S234', 'the folder of log links follows the data folders'],
    ['PLEG starts', 'S231', 'PLEG starts after the modules that need no runtime'],
    ['the sync loop starts', 'S232', 'the loop is the last call of Run'],
    ['pods are synchronised', 'S242', 'pods are synchronised by the loop alone'],
  ),
  ...inOrder(
    ['the status manager is made', 'S228', 'statuses can be written before PLEG finds any'],
    ['PLEG starts', 'S231', 'PLEG starts after the status manager'],
  ),
  ...inOrder(
    ['data directories exist', 'S235', 'modules that need a runtime start after those that need none'],
    ['runtime-dependent modules start', 'S236', 'they start when the runtime is up for the first time'],
    ['the container manager is started', 'S238', 'the container manager is the first of them here'],
    ['pods are synchronised', 'S242', 'no pod is synchronised before they run'],
  ),
];

const runOnce: readonly Promised[] = inOrder(
  ['the rlimit is set', 'S130', 'the branch comes when the kubelet is created'],
  ['pods are run once', 'S131', 'RunOnce instead of startKubelet'],
  ['the pods have run', 'S112', 'run returns when they have'],
);

export const walkthroughNotHere: readonly NotHere[] = [
  { step: 'feature gates set from flags', row: 'S016', why: 'folded' },
  { step: 'dynamic configuration refused', row: 'S024', why: 'removed' },
  { step: 'logs initialised', row: 'S025', why: 'folded' },
  { step: 'UnsecuredDependencies', row: 'S026', why: 'folded' },
  { step: 'initForOS', row: 'S041', why: 'folded' },
  { step: 'configz registered', row: 'S050', why: 'folded' },
  { step: 'KubeClient, EventClient, HeartbeatClient', row: 'S059', why: 'cluster' },
  { step: 'client CA reload', row: 'S065', why: 'folded' },
  { step: 'cgroup roots', row: 'S066', why: 'folded' },
  { step: 'node informer', row: 'S140', why: 'cluster' },
  { step: 'service informer', row: 'S151', why: 'cluster' },
  { step: 'OOM watcher', row: 'S154', why: 'folded' },
  { step: 'secret and configmap managers', row: 'S159', why: 'cluster' },
  { step: 'pod resources server', row: 'S213', why: 'folded' },
  { step: 'log server', row: 'S216', why: 'folded' },
  { step: 'cloud provider sync', row: 'S218', why: 'removed' },
  { step: 'volume manager', row: 'S220', why: 'folded' },
  { step: 'syncNodeStatus', row: 'S221', why: 'cluster' },
  { step: 'fastStatusUpdateOnce', row: 'S222', why: 'cluster' },
  { step: 'node lease', row: 'S223', why: 'cluster' },
  { step: 'podKiller', row: 'S227', why: 'removed' },
  { step: 'probe manager', row: 'S229', why: 'removed' },
  { step: 'RuntimeClass manager', row: 'S230', why: 'cluster' },
  { step: 'eviction manager', row: 'S239', why: 'folded' },
  { step: 'container log manager', row: 'S240', why: 'folded' },
  { step: 'plugin manager', row: 'S241', why: 'folded' },
];

export const walkthrough: OrderDocument = {
  key: 'A',
  title: 'walk-through of v1.23, from main() to syncLoop()',
  promises: [...command, ...run, ...runKubelet, ...kubeletRun, ...runOnce],
  notHere: walkthroughNotHere,
};
