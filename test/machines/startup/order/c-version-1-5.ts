/**
 * The order in seed C: v1.5, before CRI, with the KubeletServer object and the Builder.
 *
 * This file has only the promises of that document; for disagreements with others see `contradictions.ts`.
 */
import { inOrder, type OrderDocument, type Promised } from './document.ts';

const run: readonly Promised[] = inOrder(
  ['flags are parsed', 'S014', 'the object of all parameters is filled from the command line'],
  ['the configuration is valid', 'S013', 'Run is given a complete configuration'],
  ['clients are built or absent', 'S059', 'clients are the first thing that run builds'],
  ['cadvisor is created', 'S070', 'cAdvisor comes after clients and dependencies'],
  ['the container manager is begun', 'S102', 'the container manager is given cAdvisor'],
  ['the container manager is created', 'S102', 'RunKubelet comes after the container manager'],
  ['node addresses are resolved', 'S115', 'RunKubelet begins'],
);

const runKubelet: readonly Promised[] = inOrder(
  ['the event recorder is set up', 'S073', 'the recorder exists before the kubelet that uses it'],
  ['PodConfig is made', 'S142', 'pod sources are the first thing NewMainKubelet makes'],
  ['image back-off is made', 'S165', 'the back-off of pulls is given to the runtime'],
  ['the status manager is made', 'S169', 'the status manager comes after the runtime'],
  ['pod workers are made', 'S175', 'workers come last'],
  ['the birth cry is sent', 'S134', 'sent when NewMainKubelet has returned'],
  ['container GC starts', 'S135', 'garbage collection starts after the birth cry'],
  ['image GC starts', 'S135', 'images after containers'],
  ['the start is said', 'S132', 'startKubelet comes last'],
  ['the kubelet server starts', 'S210', 'startKubelet starts it beside the rest'],
  ['healthz starts', 'S110', 'healthz starts when RunKubelet has returned'],
  ['run blocks', 'S114', 'then run waits'],
);

const kubeletRun: readonly Promised[] = [
  ...inOrder(
    ['image GC starts', 'S209', 'startKubelet comes after createAndInitKubelet'],
    ['PLEG starts', 'S231', 'PLEG starts after the managers'],
    ['the sync loop starts', 'S232', 'the loop is the last call of Run'],
    ['pods are synchronised', 'S243', 'changes of pods are taken by the loop'],
  ),
  ...inOrder(
    ['the status manager is made', 'S228', 'the status manager starts before PLEG'],
    ['PLEG starts', 'S231', 'PLEG follows it'],
  ),
  ...inOrder(
    ['machine info is known', 'S164', 'the machine is known before the runtime manager is made'],
    ['pod workers are made', 'S175', 'workers come after the machine is known'],
  ),
];

const runOnce: readonly Promised[] = inOrder(
  ['PodConfig is made', 'S131', 'RunOnce reads the updates of PodConfig'],
  ['pods are run once', 'S131', 'the branch comes after createAndInitKubelet'],
  ['the pods have run', 'S112', 'run ends with them'],
);

export const version15: OrderDocument = {
  key: 'C',
  title: 'source analysis of v1.5',
  promises: [...run, ...runKubelet, ...kubeletRun, ...runOnce],
  notHere: [
    { step: 'GOMAXPROCS', row: 'S005', why: 'removed' },
    { step: '--version', row: 'S011', why: 'folded' },
    { step: 'API server list and auth path', row: 'S039', why: 'removed' },
    { step: 'event client', row: 'S060', why: 'cluster' },
    { step: 'port of cAdvisor', row: 'S071', why: 'removed' },
    { step: 'privileged sources', row: 'S122', why: 'removed' },
    { step: 'Builder', row: 'S133', why: 'removed' },
    { step: 'exec handler, docker and rkt managers', row: 'S177', why: 'removed' },
    { step: 'network plugin', row: 'S178', why: 'removed' },
    { step: 'container reference manager', row: 'S153', why: 'removed' },
    { step: 'disk space manager', row: 'S206', why: 'removed' },
    { step: 'service and node stores', row: 'S207', why: 'cluster' },
    { step: 'volume manager', row: 'S193', why: 'folded' },
    { step: 'syncNodeStatus', row: 'S221', why: 'cluster' },
    { step: 'syncNetworkStatus', row: 'S226', why: 'removed' },
    { step: 'podKiller', row: 'S227', why: 'removed' },
    { step: 'probe manager started', row: 'S229', why: 'removed' },
  ],
};
