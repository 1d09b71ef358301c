/** Known vulnerabilities of node agents and runtimes, which must not exist here. */
import { notHere, type Row, row } from './row.ts';

const setUp = 'test/actors/volume/set-up.test.ts';
const subPath = 'test/actors/volume/sub-path.test.ts';
const pod = 'test/machines/model/pods/static-pod.test.ts';
const live = 'test/node/bad-pods.test.ts';
const spec = 'test/machines/model/spec/spec.test.ts';
const server = 'test/actors/server/bad-inputs.test.ts';
const matrix = 'test/actors/server/auth-matrix.test.ts::rows of the authorization matrix';
const files = 'test/actors/host/pod-files.test.ts';

export const VULNERABILITIES: readonly Row[] = [
  row(
    'CVE-2017-1002101',
    'a subPath followed a link onto the node',
    `${subPath}::refuses a link out of the volume; what lies there is not for the pod to know`,
    `${subPath}::an absolute link`,
  ),
  row(
    'CVE-2021-25741',
    'the same by a race',
    `${subPath}::an attacker who exchanges names in a loop (CVE-2021-25741)`,
    'test/node/sub-path-race.test.ts::shows no container a file of the node',
  ),
  row(
    'CVE-2017-1002102',
    'the writer of volumes removed files of the node',
    `${setUp}::never delete or write through links that lie in the volume (CVE-2017-1002102)`,
    `${setUp}::refuse a payload at %j`,
    'test/machines/model/volumes/plan.test.ts::a path upwards',
    `${files}::a folder exchanged for a link in a loop never lets a file out`,
    `${files}::a link that is removed does not take its target with it`,
  ),
  row(
    'CVE-2019-11245',
    'a container became root when it was restarted',
    `${live}::CVE-2019-11245: a pod that must not be root is not`,
    `${spec}::runs by name what an image names`,
    `${spec}::holds the container’s word against the pod’s`,
  ),
  row('CVE-2019-11248', 'profiles beside healthz', 'test/actors/server/healthz.test.ts::nothing else answers here'),
  row(
    'CVE-2019-11250',
    'tokens in logs; so CVE-2020-8564 and CVE-2020-8565',
    'test/node/secrets.test.ts::writes no header of the manifest URL to journal, log or any other file',
    'test/node/registry.test.ts::leave no password in journal, log or any file of the node',
    'test/node/volumes.test.ts::an error of the runtime does not tell a Secret',
    'test/actors/cri/ports.test.ts::a command does not tell the secrets of its container',
    'test/actors/image/credentials.test.ts::the docker configuration is not JSON',
  ),
  row('CVE-2020-8551', 'a flood of requests', `${server}::fuzzed requests`, `${server}::an endless body is not read`),
  row(
    'CVE-2020-8557',
    'a pod filled the disk through its hosts file',
    'test/actors/stats/signals.test.ts::logs, layers and the hosts file count for the pod',
  ),
  row(
    'CVE-2020-8558',
    'loopback of the node was reached by neighbours',
    'test/hardening/rows.test.ts::no source of this agent sets route_localnet',
    'test/machines/charts/pods/allocation/admission.test.ts::net.ipv4.conf.all.route_localnet',
  ),
  row(
    'CVE-2020-8559',
    'a redirect led elsewhere',
    'test/actors/probe/http.test.ts::to another host is a success with a warning',
    `${server}::no target leads out of this server`,
  ),
  notHere('CVE-2020-10749', 'a container sent router advertisements', 'the network plug-in of the cluster decides'),
  row(
    'CVE-2022-3294',
    'the address of a node was not verified',
    'test/actors/certificate/certificates.test.ts::is asked for again when the node gets another address',
    'test/machines/startup/refusals.test.ts::%j with cloud provider %j is refused',
  ),
  row(
    'CVE-2023-2431',
    'a seccomp profile without a name let everything run',
    `${pod}::31 an empty seccomp profile`,
    `${pod}::31 a seccomp profile upwards`,
    `${live}::a seccomp profile that is missing, or a folder, lets nothing run`,
  ),
  row('CVE-2024-10220', 'gitRepo volumes ran commands; so CVE-2025-1767', `${pod}::32 gitRepo`),
  row(
    'CVE-2025-0426',
    'checkpoints by a read-only port filled the disk',
    'test/machines/charts/node/server.test.ts::serves its API by TLS on 10250 and nothing read-only, unless told so',
    matrix,
  ),
  row('CVE-2025-4563', 'mirror pods claimed devices', `${pod}::static pods may not reference resourceclaims`),
  row(
    'CVE-2025-5187',
    'a node deleted itself by an owner',
    'test/machines/charts/node/object/node-object.test.ts::a new Node is what the recorded kubelet posted',
  ),
  notHere('CVE-2024-9042', 'commands of Windows; so CVE-2023-3676, 3955 and 5528', 'this agent runs on Linux alone'),
  row(
    'CVE-2019-1002101',
    'kubectl cp wrote elsewhere: streams are bytes here',
    'test/cluster/kubectl-streams.test.ts::with files that come back as they went',
  ),
  row('nodes/proxy', 'reading a node was enough to run commands by GET', matrix),
  row('log paths', 'names in requests for logs led elsewhere', `${server}::paths that want out`),
  row(
    'CVE-2025-31133',
    'races of runc; so CVE-2025-52565 and 52881: which runtime it is stands in the journal',
    'test/machines/startup/runtime-service.test.ts::takes the cgroup driver from the runtime',
  ),
];
