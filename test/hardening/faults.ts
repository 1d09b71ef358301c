/** Faults of the systems around the agent. */
import { type Row, row } from './row.ts';

const calls = 'test/node/faults-of-calls.test.ts';
const events = 'test/node/faults-of-events.test.ts';
const host = 'test/node/faults-of-the-host.test.ts';
const time = 'test/node/faults-of-time.test.ts';
const names = 'test/node/faults-of-names.test.ts';
const mounts = 'test/node/faults-of-mounts.test.ts';
const power = 'test/node/faults-of-power.test.ts';
const crash = 'test/node/crash.test.ts';
const machines = 'test/machines/charts/pods/faults.test.ts';
const following = 'test/actors/kube/following.test.ts';
const damage = 'test/kernel/journal/damage.test.ts';
const disk = 'test/kernel/journal/disk-full.test.ts';

export const FAULTS: readonly Row[] = [
  row(
    'F1',
    'the agent is killed at every step of the life of a pod',
    `${machines}::at any step of a pod that starts`,
    `${machines}::at any step of a pod that ends`,
    `${calls}::fault 1: the agent dies before %s and after it`,
    `${calls}::fault 1: a start that dies with its agent is no crash of the app`,
    `${crash}::while pods come and go, leaves exactly the wanted ones`,
  ),
  row(
    'F2',
    'the runtime is killed in each call, and back after 0, 3 and 60 s',
    `${calls}::fault 2: the runtime dies in %s, and is back after %i ms`,
    `${calls}::fault 2: the runtime dies while calls of every kind are under way, and is away for a minute`,
  ),
  row(
    'F3',
    'the runtime stands still',
    `${events}::costs no container anything, piles no calls up`,
    'test/machines/charts/pods/observation.test.ts::unhealthy when listing has failed for three minutes',
  ),
  row(
    'F4',
    'a call fails, is late, loses its answer or comes twice',
    `${calls}::fault 4: a call that fails, is late, loses its answer or comes twice`,
    `${machines}::a call that fails or whose reply is lost`,
  ),
  row(
    'F5',
    'the event stream drops, doubles, reorders and breaks while 100 containers die',
    `${events}::%s: each container starts again, once`,
    `${events}::breaks: each container starts again, once`,
    `${events}::A hundred containers that die together`,
  ),
  row(
    'F6',
    'the API server is away, comes back older, and without a pod',
    'test/node/cluster-node.test.ts::starts while the API server is away',
    `${following}::waits for a server that is away, and finds what happened meanwhile`,
    `${following}::lists again when the server has forgotten where it was`,
    `${power}::starts the pods that it may start without the API server, once`,
  ),
  row(
    'F7',
    'the API server conflicts, throttles, fails, breaks off and hangs',
    `${following}::begins in spite of %s`,
    'test/actors/kube/client.test.ts::waits as long as the server asks',
    'test/actors/kube/client.test.ts::gives a hung request up',
    `${following}::is found by the lease`,
  ),
  row(
    'F8',
    'disks without room and without inodes',
    `${host}::fault 8: a disk of %s without %s stops no pod that runs`,
    `${disk}::of 256 KB: suspended when full, continues when there is room again`,
  ),
  row(
    'F9',
    'the journal is torn, flipped, incomplete or cannot be written',
    `${host}::fault 9: a journal whose end is torn and whose middle is flipped`,
    `${damage}::no flipped bit goes unnoticed`,
    `${damage}::a segment in the middle`,
    `${disk}::that is read-only does not stop the node either`,
    `${disk}::a disk that hangs does not delay the end of the process`,
  ),
  row(
    'F10',
    'the machine kills for memory: the app, a sidecar, the agent',
    `${host}::the %s: it is reported, restarts, and affects no other pod`,
    `${host}::the agent: it is killed and the next one takes everything up`,
    'test/machines/charts/node/oom-watcher.test.ts::says SystemOOM on the node',
  ),
  row(
    'F11',
    'the clock is set',
    `${time}::an hour ahead, in a back-off`,
    `${time}::two hours back, in a back-off`,
    `${time}::a new agent that begins on such a clock`,
    'test/machines/charts/pods/clock-jumps.test.ts::a second back, as a leap does',
    'test/machines/charts/pods/prober/prober-policy.test.ts::survives a clock that went back',
  ),
  row('F12', 'the name server is dead', `${names}::is asked by many probes, and no pod waits for the answers`),
  row(
    'F13',
    'the network of a sandbox hangs, fails, and cannot be taken down',
    `${host}::fault 13: a network that cannot be set up and not be taken down`,
    `${host}::fault 13: a network whose set-up hangs`,
  ),
  row(
    'F14',
    'a mount that never answers',
    `${mounts}::as hostPath: the pod says what does not answer`,
    `${mounts}::that a running pod has mounted in its volume`,
    `${mounts}::keeps no node from ending`,
    'test/actors/volume/sub-path.test.ts::costs one thread, however many ask for it',
    'test/node/nfs-volumes.test.ts::of a server that does not answer cost other pods nothing',
    'test/actors/volume/network-volume.test.ts::is unmounted by force if its server does not answer',
    'test/actors/stats/server-usage.test.ts::is unknown soon, and leaves no process',
  ),
  row(
    'F15',
    'the machine shuts down, or loses power while the API server is away',
    'test/node/shutdown.test.ts::pods end by priority',
    'test/node/shutdown.test.ts::deaf',
    `${power}::reports the actual state when the API server is back`,
  ),
  row(
    'F16',
    'a file system turns read-only, or a disk does not keep what it was given',
    `${host}::fault 16: a file system that turns read-only`,
    'test/node/read-only-root.test.ts::stops neither the agent nor what runs',
    'test/node/lost-output.test.ts::%s',
    'test/actors/volume/set-up.test.ts::leave nothing of a write that fails in the middle',
    `${disk}::%s is survived as well`,
    `${disk}::EIO`,
  ),
  row(
    'F17',
    'the agent is ended by the kernel for want of memory, or by a fault of its own',
    'test/node/process-faults.test.ts::the kernel kills it for memory',
    'test/node/process-faults.test.ts::%s is journaled, ends the node with 2',
    'test/kernel/kernel.test.ts::ends the kernel, is kept with its input, and throws again in a replay',
  ),
];
