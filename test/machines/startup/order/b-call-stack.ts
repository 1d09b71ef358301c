/**
 * The order in seed B: the call stack of v1.22 as a tree, then the code of each function.
 *
 * This file has only the promises of that document; for disagreements with others see `contradictions.ts`.
 */
import { inOrder, type OrderDocument, type Promised } from './document.ts';

const command: readonly Promised[] = inOrder(
  ['flags are parsed', 'S007', 'the first flag parse is the command itself'],
  ['the configuration file is read', 'S020', 'the file is loaded when flags are valid'],
  ['the configuration is valid', 'S022', 'the merged object is validated'],
  ['permissions are checked', 'S028', 'after the dependencies, before the signal context'],
  ['the version is said', 'S031', 'Run is the last call of the command'],
);

const run: readonly Promised[] = [
  ...inOrder(
    ['the configuration is valid', 'S045', 'run validates before it touches anything'],
    ['the host name is known', 'S054', 'the name is had before the clients'],
    ['standalone mode is detected', 'S056', 'without a kubeconfig every client is absent'],
    ['clients are built or absent', 'S059', 'clients come before auth'],
    ['auth is built', 'S064', 'auth comes before the cgroup roots'],
    ['cadvisor is created', 'S070', 'cAdvisor is given the cgroup roots'],
    ['machine info is known', 'S077', 'reserved CPUs are judged against the machine'],
    ['the container manager is begun', 'S078', 'the container manager needs the machine'],
    ['the container manager is created', 'S102', 'it may refuse the machine'],
    ['the OOM score is applied', 'S105', 'the score comes after the container manager'],
    ['node addresses are resolved', 'S116', 'RunKubelet comes after the score'],
  ),
  ...inOrder(
    ['cadvisor is created', 'S070', 'cAdvisor comes before the recorder'],
    ['the event recorder is set up', 'S073', 'the recorder comes after cAdvisor'],
    ['the container manager is created', 'S102', 'the container manager is given the recorder'],
  ),
];

const newMainKubelet: readonly Promised[] = inOrder(
  ['node addresses are resolved', 'S118', 'addresses are refused before the kubelet is created'],
  ['the root directory is said', 'S124', 'the root directory is set before createAndInitKubelet'],
  ['PodConfig is made', 'S142', 'pod sources come before policies'],
  ['image back-off is made', 'S165', 'the back-off of pulls comes before the managers'],
  ['the status manager is made', 'S169', 'the status manager comes before the workers'],
  ['pod workers are made', 'S175', 'workers come before the runtime manager, which is given them'],
  ['container GC starts', 'S135', 'garbage collection starts when everything is made'],
  ['image GC starts', 'S135', 'images after containers'],
  ['the rlimit is set', 'S130', 'the limit comes after createAndInitKubelet'],
  ['the start is said', 'S132', 'startKubelet comes last'],
  ['the kubelet server starts', 'S210', 'startKubelet starts it beside the rest'],
  ['healthz starts', 'S110', 'healthz comes after RunKubelet'],
  ['READY=1 is sent', 'S113', 'READY=1 comes after healthz'],
  ['run blocks', 'S114', 'then run waits for its end'],
);

const kubeletRun: readonly Promised[] = [
  ...inOrder(
    ['the rlimit is set', 'S130', 'Run of the kubelet is begun by startKubelet'],
    ['no API server is said', 'S217', 'said before the modules start'],
    ['data directories are asked for', 'S219', 'modules that need no runtime; their failure is fatal'],
    ['data directories exist', 'S233', 'the loops start when the modules are there'],
    ['PLEG starts', 'S231', 'PLEG starts after the status manager'],
    ['the sync loop starts', 'S232', 'the loop is the last call'],
    ['pods are synchronised', 'S243', 'changes of pods are taken by the loop'],
  ),
  ...inOrder(
    ['the status manager is made', 'S228', 'the status manager starts before PLEG'],
    ['PLEG starts', 'S231', 'PLEG follows it'],
  ),
  ...inOrder(
    ['the runtime service is ready', 'S106', 'the runtime is connected before it is asked whether it is up'],
    ['runtime-dependent modules start', 'S236', 'updateRuntimeUp starts them once'],
  ),
];

const runOnce: readonly Promised[] = [
  ...inOrder(
    ['the rlimit is set', 'S130', 'the limit comes before both branches'],
    ['data directories are asked for', 'S131', 'RunOnce makes the folders first'],
    ['the container logs directory is asked for', 'S131', 'then the folder of log links'],
    ['pods are run once', 'S131', 'then it takes one update of the manifests'],
    ['the pods have run', 'S112', 'RunKubelet returns with their result'],
  ),
];

export const callStack: OrderDocument = {
  key: 'B',
  title: 'call stack and code of v1.22',
  promises: [...command, ...run, ...newMainKubelet, ...kubeletRun, ...runOnce],
  notHere: [
    { step: 'unknown command refused', row: 'S009', why: 'folded' },
    { step: 'signal context', row: 'S029', why: 'folded' },
    { step: 'masked configuration said', row: 'S030', why: 'folded' },
    { step: 'configz registered', row: 'S050', why: 'folded' },
    { step: 'hidden metrics', row: 'S051', why: 'folded' },
    { step: 'heartbeat client', row: 'S061', why: 'cluster' },
    { step: 'client CA reload', row: 'S065', why: 'folded' },
    { step: 'runtime, system and kubelet cgroups', row: 'S067', why: 'folded' },
    { step: 'dockershim', row: 'S107', why: 'removed' },
    { step: 'dynamic configuration', row: 'S109', why: 'removed' },
    { step: 'iptables bits checked', row: 'S138', why: 'folded' },
    { step: 'node informer', row: 'S140', why: 'cluster' },
    { step: 'eviction thresholds', row: 'S149', why: 'folded' },
    { step: 'service informer', row: 'S151', why: 'cluster' },
    { step: 'OOM watcher', row: 'S154', why: 'folded' },
    { step: 'secret and configmap managers', row: 'S159', why: 'cluster' },
    { step: 'pod manager and mirror client', row: 'S168', why: 'cluster' },
    { step: 'resource analyzer', row: 'S170', why: 'folded' },
    { step: 'generic PLEG made', row: 'S182', why: 'folded' },
    { step: 'server certificate manager', row: 'S187', why: 'folded' },
    { step: 'probe manager', row: 'S188', why: 'folded' },
    { step: 'volume plugins and volume manager', row: 'S193', why: 'folded' },
    { step: 'eviction manager', row: 'S195', why: 'folded' },
    { step: 'node lease controller', row: 'S202', why: 'cluster' },
    { step: 'shutdown manager', row: 'S203', why: 'folded' },
    { step: 'syncNodeStatus', row: 'S221', why: 'cluster' },
    { step: 'iptables chains', row: 'S225', why: 'folded' },
  ],
};
