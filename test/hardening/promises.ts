/**
 * The promises that a node keeps after every fault. Each fault on real processes ends with them:
 * `test/support/faulty-node.ts`.
 */
import { type Row, row } from './row.ts';

const calls = 'test/node/faults-of-calls.test.ts';
const crash = 'test/node/crash.test.ts';
const machines = 'test/machines/charts/pods/faults.test.ts';
const power = 'test/node/faults-of-power.test.ts';
const apiPods = 'test/machines/charts/pods/cluster/api-pods.test.ts';

export const PROMISES: readonly Row[] = [
  row('P1', 'containers run on while the agent is dead', `${crash}::touches no container`, `${calls}::restarted()`),
  row('P2', 'a restart touches no healthy container', `${machines}::leaves running pods untouched`, crash),
  row(
    'P3',
    'static pods need no API server',
    `${power}::starts the pods that it may start without the API server, once`,
  ),
  row(
    'P4',
    'the status converges to the actual state',
    `${power}::reports the actual state when the API server is back`,
    calls,
  ),
  row(
    'P5',
    'no readiness changes without a probe',
    'test/node/probes.test.ts::a restart of the daemon takes no readiness away',
    'test/machines/charts/pods/prober/prober.test.ts::invents no verdict where nothing is known',
  ),
  row(
    'P6',
    'what was deleted is never started again',
    `${apiPods}::lost the pod while the watch was broken: it ends`,
    'test/machines/charts/pods/cluster/remembered-pods.test.ts::end when they were deleted meanwhile',
    calls,
  ),
  row('P7', 'nothing is done twice', `${machines}::the next one finishes, and nothing runs twice`, `${calls}::starts`),
  row(
    'P8',
    'grace lasts over a restart',
    `${apiPods}::during an end does not shorten the grace period`,
    'test/actors/embedded-runtime/adoption.test.ts::an adopted container stops with grace',
  ),
  row(
    'P9',
    'no data is lost, and nothing outside is removed',
    'test/actors/volume/set-up.test.ts::a bound folder loses nothing when the pod goes',
    'test/actors/host/pod-files.test.ts::nothing outside the root is made, written or removed',
    'test/node/bad-pods.test.ts::36 what another wrote into the runtime stays',
  ),
  row(
    'P10',
    'memory, files, sockets and journal have bounds',
    'test/kernel/journal/segments.test.ts::removes the oldest of the oldest incarnation first',
    'test/kernel/journal/disk-full.test.ts::a disk that stands still does not fill the memory',
    calls,
  ),
  row('P11', 'a journal replays to the same', 'test/node/replay-cli.test.ts::replays with 0', calls),
  row('P12', 'a torn end is cut', 'test/kernel/journal/damage.test.ts::costs the last turn, wherever it is torn'),
];
