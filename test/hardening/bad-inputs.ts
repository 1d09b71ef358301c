/** Bad inputs: from authors of manifests and pods, containers, runtimes and clients. */
import { type Row, row } from './row.ts';

const manifests = 'test/actors/host/manifests/manifests.test.ts';
const folder = 'test/actors/host/manifests/bad-manifests.test.ts';
const pod = 'test/machines/model/pods/static-pod.test.ts';
const live = 'test/node/bad-pods.test.ts';
const http = 'test/actors/probe/http.test.ts';
const logs = 'test/actors/server/container-logs.test.ts';
const hooks = 'test/machines/charts/pods/container/hooks.test.ts';
const relist = 'test/actors/cri/relist.test.ts';
const broken = 'test/actors/cri/broken-runtime.test.ts';
const server = 'test/actors/server/bad-inputs.test.ts';
const streaming = 'test/contract/streaming.test.ts';
const pipelines = 'test/actors/server/http/pipelines.test.ts';

export const BAD_INPUTS: readonly Row[] = [
  row('B1', 'an empty file', `${folder}::01-empty.yaml`),
  row('B2', 'a file that is half written', `${folder}::02-half.yaml`, `${manifests}::2 a good file that is rewritten`),
  row('B3', 'a file of 10 MB', `${folder}::03-large.yaml`),
  row('B4', 'an alias bomb', `${folder}::04-bomb.yaml`, `${folder}::04-snake.yaml`),
  row('B5', 'many documents', `${folder}::05-documents.yaml`),
  row('B6', 'another kind', `${folder}::06-service.yaml`),
  row('B7', 'duplicate keys', `${folder}::07-twice.yaml`),
  row('B8', 'names that are none', `${folder}::08-slash.yaml`, `${folder}::08-nul.yaml`, `${folder}::08-long.yaml`),
  row('B9', 'two files with one name', `${pod}::9 of two files with one pod name`),
  row('B10', 'one uid twice', `${pod}::10 of two files with one uid`, `${folder}::10-evil-uid.yaml`),
  row('B11', 'links, pipes, sockets, devices and folders', `${manifests}::11 FIFO, socket, folder, device`),
  row('B12', 'dot files and backups', `${manifests}::12 dot files and backups`),
  row('B13', 'a file that vanishes while it is read', `${manifests}::13 files that vanish`),
  row('B14', '20,000 files', `${manifests}::14 20,000 files at once`),
  row('B15', 'a folder that is removed and made again', `${manifests}::15 a folder that is removed`),
  row('B16', 'other encodings', `${manifests}::16 a byte order mark`, `${folder}::16-utf16.yaml`),
  row('B17', 'numbers as text, odd quantities', `${folder}::17-huge.yaml`, `${folder}::17-negative.yaml`),
  row(
    'B18',
    'integers beyond those of a double',
    `${folder}::18-group.yaml`,
    'test/actors/cri/client.test.ts::64-bit integers keep every digit',
    'test/actors/kube/client.test.ts::keeps integers that a double cannot hold',
  ),
  row(
    'B19',
    'cyclic and unknown variables',
    `${pod}::19 references to unknown variables`,
    `${folder}::19-variables.yaml`,
  ),
  row(
    'B20',
    'keys that every object has',
    `${pod}::20 keys that name parts of every object`,
    `${relist}::labels that are names of Object.prototype`,
    `${pod}::a uid that would leave its folder, or is what every object has, is refused`,
    'test/machines/charts/pods/names.test.ts::that every object has a member of are names like any other',
    'test/machines/model/values/values.test.ts::have their own keys, and not what every object has',
    'test/machines/charts/csi/csi-volumes.test.ts::to reach a driver named like what every object has',
    'test/actors/volume/variables.test.ts::is that of a container named like what every object has',
    'test/actors/volume/sub-path.test.ts::is told of a container named like what every object has',
    `${http}::may have a header with a name that every object has`,
    'test/actors/host/manifests/config-object.test.ts::is never a key that every object has',
  ),
  row(
    'B21',
    'a subPath upwards, absolute, through a link',
    'test/machines/model/spec/spec.test.ts::do not let a sub-path %s out',
    'test/actors/volume/sub-path.test.ts::a link upwards through itself',
  ),
  row(
    'B22',
    'a hostPath of another type',
    'test/actors/volume/set-up.test.ts::says what is not there as upstream does',
  ),
  row('B23', 'one name or path twice', `${pod}::Duplicate value: "c"`, `${pod}::Invalid value: "/x": must be unique`),
  row(
    'B24',
    'ports that are none, or clash',
    `${pod}::24 port 0`,
    `${pod}::24 clashing host ports`,
    'test/machines/charts/pods/allocation/admission.test.ts::host-ports-conflict is refused',
  ),
  row(
    'B25',
    'odd numbers of a probe',
    `${pod}::25 what is zero of a probe`,
    `${pod}::25 a negative probe time`,
    'test/actors/probe/counter.test.ts::25 the largest threshold',
    'test/actors/probe/watch.test.ts::never asks twice at the same time',
  ),
  row(
    'B26',
    'an HTTP probe that is answered without end',
    `${http}::that never ends is read as far as it matters`,
    `${http}::that comes back for ever ends`,
    `${http}::that sends its headers a byte a time`,
    `${http}::with a chunk that is none`,
    `${http}::that switches to a protocol without a request for it is a failure`,
  ),
  row('B27', 'a command that prints for ever', 'test/actors/probe/watch.test.ts::a command that prints without end'),
  row(
    'B28',
    'hooks that never end',
    `${hooks}::that never ends has the grace and no more`,
    `${hooks}::does not hold up a removal`,
    'test/machines/charts/pods/stuck-calls.test.ts::begin',
  ),
  row('B29', 'grace of none, less, and ten years', `${live}::29 a grace of ten years`, `${pod}::29 a negative grace`),
  row(
    'B30',
    'last words into a device, or of a gigabyte',
    `${live}::30 last words of a gigabyte`,
    'test/actors/host/termination-message.test.ts::a file of 1 GB costs no memory',
  ),
  row('B31', 'an empty seccomp profile', `${pod}::31 an empty seccomp profile`),
  row('B32', 'a gitRepo volume', `${pod}::32 gitRepo`),
  row('B33', '2 MB of arguments', `${live}::33 more arguments than the kernel takes`),
  row(
    'B34',
    'a log without lines, without order, or exchanged for a link',
    `${logs}::without a single line break`,
    `${logs}::with lines that are none`,
    `${logs}::that is a link, or no file`,
    'test/actors/logs/container-logs.test.ts::does not follow a link that took the place of the log',
  ),
  row(
    'B35',
    'a runtime that answers oddly',
    `${relist}::a state of a newer runtime is unknown, and not ready`,
    `${relist}::missing metadata stays absent, and negative exit codes are kept`,
    'test/actors/cri/client.test.ts::a reply over 16 MiB is refused',
  ),
  row(
    'B36',
    'orphaned sandboxes and containers',
    `${relist}::a sandbox or container without the labels of a pod is foreign`,
    'test/actors/cri/watch-pods.test.ts::foreign entries',
    `${live}::36 what another wrote into the runtime stays`,
  ),
  row('B37', 'paths that want out', `${server}::paths that want out`, `${server}::no target leads out of this server`),
  row(
    'B38',
    'upgrades without rights, with odd protocols, clients that never read, and a runtime with an odd status',
    'test/actors/server/auth-matrix.test.ts::rows of the authorization matrix',
    `${streaming}::refusals are those of the recordings`,
    `${streaming}::a client that never reads costs no more than a small buffer`,
    'test/actors/server/streaming/streams.test.ts::%s is an answer',
  ),
  row(
    'B39',
    'heads that trickle or never end, and HTTP/2',
    `${server}::a head that comes letter by letter`,
    `${server}::100 MB of headers end at the limit`,
    `${server}::HTTP/2 is refused before any stream of it`,
  ),
  row(
    'B40',
    'certificates that do not count, and a new authority',
    `${server}::certificates that do not count`,
    'test/actors/server/tls/tls.test.ts::is the authority of clients: certificates of the old one do not count',
  ),
  row(
    'B41',
    'several requests in one write, the last of which takes the connection out of HTTP',
    `${pipelines}::answered in their order, and closed`,
    `${pipelines}::what is refused after two that are answered comes third`,
    `${pipelines}::a client that is refused and does not leave is closed`,
  ),
  row(
    'B42',
    'a pod of a thousand containers',
    'test/machines/charts/pods/pod/groups.test.ts::starts all, a group in a turn',
    'test/machines/charts/pods/pod/groups.test.ts::a new agent takes all over and touches none',
    'test/machines/charts/pods/pod/groups.test.ts::ends all when it is removed before a new agent has taken over the last of them',
  ),
  row(
    'B43',
    'a manifest that takes the parser seconds',
    'test/actors/host/manifests/decode-in-thread.test.ts::decisions go on while a hostile document is decoded',
    'test/actors/host/manifests/decode-in-thread.test.ts::%s comes out the same',
  ),
  row(
    'B44',
    'a runtime whose events and lists have no end, and whose numbers are none',
    `${broken}::close their stream, which is opened again later`,
    `${broken}::of pods are refused as a whole`,
    `${broken}::of one pod fail its inspection alone`,
    `${broken}::of known containers take time in proportion`,
    `${broken}::with %j restarts has those of its attempt`,
    `${broken}::of megabytes is cut`,
  ),
  row(
    'B45',
    'delays that are no number, below zero, or longer than a timer',
    'test/kernel/kernel.test.ts::of an actor that wants a timer after %s is contained',
    'test/actors/pause.test.ts::a wait of %d milliseconds lasts until the abort',
    'test/actors/probe/watch.test.ts::with the longest period asks once',
    'test/actors/kube/client.test.ts::takes a wait of %d seconds for %d milliseconds',
  ),
];
