/**
 * The order in seed E: `run()` of v1.18 in nineteen numbered steps.
 *
 * This file has only the promises of that document; for disagreements with others see `contradictions.ts`.
 */
import { inOrder, type OrderDocument, type Promised } from './document.ts';

const steps: readonly Promised[] = inOrder(
  ['the configuration is valid', 'S045', 'steps 1 and 2: gates, then validation'],
  ['the version is said', 'S040', 'Run says the version before it calls run'],
  ['the lock file is asked for', 'S048', 'the lock comes before step 3'],
  ['the lock is held', 'S048', 'run goes no further without the lock'],
  ['contention is watched', 'S049', 'the watch begins when the lock is held'],
  ['the host name is known', 'S054', 'step 6'],
  ['standalone mode is detected', 'S056', 'step 7'],
  ['clients are built or absent', 'S059', 'step 7, else'],
  ['auth is built', 'S064', 'step 8'],
  ['cadvisor is created', 'S070', 'step 10, after the cgroups of step 9'],
  ['machine info is known', 'S077', 'step 12 asks cAdvisor for the machine'],
  ['the event recorder is set up', 'S073', 'step 11'],
  ['the container manager is begun', 'S078', 'step 12'],
  ['the container manager is created', 'S102', 'step 12, its answer'],
  ['the OOM score is applied', 'S105', 'step 14'],
  ['node addresses are resolved', 'S116', 'step 16 begins'],
);

const runKubelet: readonly Promised[] = inOrder(
  ['the event recorder is set up', 'S073', 'step 16a: the recorder is there'],
  ['the root directory is said', 'S121', 'step 16b, c: capabilities and the operating system'],
  ['PodConfig is made', 'S127', 'step 16d: createAndInitKubelet'],
  ['pod workers are made', 'S128', 'step 16d, its last parts'],
  ['the rlimit is set', 'S130', 'step 16e'],
  ['the start is said', 'S132', 'step 16f'],
  ['the kubelet server starts', 'S210', 'startKubelet starts it beside the rest'],
  ['healthz starts', 'S110', 'step 18'],
  ['READY=1 is sent', 'S113', 'step 19'],
  ['run blocks', 'S114', 'after the last step run waits'],
);

const runOnce: readonly Promised[] = inOrder(
  ['the rlimit is set', 'S130', 'step 16e'],
  ['pods are run once', 'S131', 'step 16f, the other branch'],
  ['the pods have run', 'S112', 'step 18 returns then'],
);

export const nineteenSteps: OrderDocument = {
  key: 'E',
  title: 'run() of v1.18 in nineteen steps',
  promises: [...steps, ...runKubelet, ...runOnce],
  notHere: [
    { step: 'step 3: configz', row: 'S050', why: 'folded' },
    { step: 'hidden metrics', row: 'S051', why: 'folded' },
    { step: 'step 5: dependencies when there are none', row: 'S043', why: 'folded' },
    { step: 'cloud provider', row: 'S053', why: 'removed' },
    { step: 'step 7: KubeClient, EventClient, HeartbeatClient', row: 'S059', why: 'cluster' },
    { step: 'client CA reload', row: 'S065', why: 'folded' },
    { step: 'step 9: cgroup roots', row: 'S066', why: 'folded' },
    { step: 'step 15: dockershim', row: 'S107', why: 'removed' },
    { step: 'step 17: dynamic configuration', row: 'S109', why: 'removed' },
  ],
};
