/** What clients of the ports and servers that the node asks may do on purpose, and disks that heal. */
import { type Row, row } from './row.ts';

const disk = 'test/kernel/journal/disk-full.test.ts';
const decode = 'test/actors/kube/decode.test.ts';
const manifestUrl = 'test/actors/host/manifests/manifest-url.test.ts';
const reviews = 'test/actors/server/auth/reviews.test.ts';
const spdy = 'test/actors/spdy/attacks.test.ts';

export const ATTACKS: readonly Row[] = [
  row(
    'A1',
    'SPDY frames that are malformed or too large, headers that unpack without end',
    `${spdy}::a stream without headers`,
    `${spdy}::a frame of 16 MiB`,
    `${spdy}::200 KB of headers that unpack to 200 MB`,
    'test/actors/spdy/frames.test.ts::a frame that nobody may send ends the reading',
  ),
  row(
    'A2',
    'SPDY streams and pings without end',
    `${spdy}::streams without end are 2,048 and no more`,
    `${spdy}::a stream that is opened twice ends the connection`,
    `${spdy}::a client that pings without end and reads no answer fills no memory`,
  ),
  row(
    'A3',
    'an API server whose lists, answers and lines never end, or are of another kind',
    'test/machines/charts/kube/reflector.test.ts::a list whose every page has %s next one ends',
    'test/actors/kube/slow-answer.test.ts::is given up after five minutes',
    `${decode}::a line without end is given up`,
    `${decode}::is over with the line %s`,
    `${decode}::fails with the line %.60s`,
  ),
  row('A4', 'names of prototypes in what an API server says', `${decode}::names of prototypes are names`),
  row(
    'A5',
    'a manifest URL that drips, floods, nests, redirects, or names prototypes',
    `${manifestUrl}::gives an answer that drips up after ten seconds`,
    `${manifestUrl}::a body without end`,
    `${manifestUrl}::half a million pods`,
    `${manifestUrl}::100,000 levels`,
    `${manifestUrl}::a redirect to a file`,
    `${manifestUrl}::follows a redirect to another host without the values of its headers`,
    `${manifestUrl}::keeps the names of prototypes as names`,
  ),
  row(
    'A6',
    'tokens that resemble those of others, tokens beside certificates, reviews that never come or contradict themselves',
    `${reviews}::be it its prefix, its extension, of another case, or the name of a prototype`,
    `${reviews}::a no holds for its token alone`,
    `${reviews}::a certificate that counts wins over it`,
    `${reviews}::an API server that does not answer is a refusal`,
    `${reviews}::allowed and denied at once`,
    `${reviews}::a cache has a limit, and forgets the oldest`,
  ),
  row(
    'A7',
    'a disk that turns read-only or cannot keep what it took, and heals',
    `${disk}::that is read-only does not stop the node either, and is written as soon as it may be`,
    `${disk}::a disk that could not keep what it took suspends journaling with the next write`,
  ),
  row(
    'A8',
    'device plugins that register, list and announce themselves without end',
    'test/actors/devices/devices.test.ts::registrations without end are heard a few times a second',
    'test/actors/devices/devices.test.ts::all plugins together have no more devices',
    'test/machines/charts/node/devices/device-manager.test.ts::a node takes plugins of 128 resources',
    'test/actors/plugins/plugins.test.ts::of more sockets than a node asks the first are said',
    'test/actors/plugins/plugins.test.ts::a folder of which one file a moment changes',
  ),
  row(
    'A9',
    'a change of a watch that nobody can read, versions that are always too old, changes faster than decisions',
    'test/actors/kube/following.test.ts::lists again when the change that comes next %s',
    'test/actors/kube/following.test.ts::is not asked without pause',
    `${decode}::many changes at once let everything else have its turn`,
    `${decode}::a change in pieces of one byte`,
  ),
  row(
    'A10',
    'pull secrets of globs that take for ever, or of more registries than a pull can compare',
    'test/actors/image/keyring.test.ts::the glob %s matches %s',
    'test/hardening/outside-bytes.test.ts::stars between letters in a pattern of a registry',
    'test/actors/image/credentials.test.ts::are refused when one has more registries',
  ),
  row(
    'A11',
    'folders below each other until the agent has no descriptors',
    'test/actors/volume/tree.test.ts::levels without end go with few descriptors',
    'test/actors/volume/tree.test.ts::levels without end are not given to a group',
    'test/actors/volume/sub-path.test.ts::is refused with more folders below each other',
    'test/actors/volume/set-up.test.ts::have a file below as many folders as an agent can hold open',
  ),
  row(
    'A12',
    'a pod that needs thousands of objects, and objects of thousands of keys',
    'test/machines/model/validation/size.test.ts::of the API server names as many objects as the limit',
    'test/machines/charts/objects/objects.test.ts::of many objects of one pod some are asked for in each turn',
  ),
  row(
    'A13',
    'commands that print 16 MiB, and servers that answer a probe with a URL of megabytes, or only that they go on',
    'test/actors/cri/ports.test.ts::of a command that prints a lot the beginning is told',
    'test/actors/probe/http.test.ts::to a URL of ten megabytes fails, and is quoted in part',
    'test/actors/probe/http.test.ts::that only says that it goes on is cut off',
  ),
  row(
    'A14',
    'a registry under thousands of spellings, the user of an image of megabytes, a login plugin that outlives itself',
    'test/actors/image/keyring.test.ts::are tried up to a hundred',
    'test/actors/image/keyring.test.ts::are refused when all secrets of a pull have more than one may have',
    'test/actors/cri/ports.test.ts::of the user of an image no more is kept than a name can be',
    'test/actors/image/credentials.test.ts::is given up though a process of its own outlives it',
  ),
  row(
    'A15',
    'a resource driver that hangs up on every call, and connections without end to the sockets for plugins and agents',
    'test/actors/dra/dra.test.ts::a driver that hangs up on every call is called a few times a second',
    'test/actors/grpc-socket.test.ts::has 128 connections and no more',
  ),
  row(
    'A16',
    'a link of a pod where a compressed log is written',
    'test/actors/logs/container-logs.test.ts::does not write through a link in place of the compressed part',
  ),
  row(
    'A17',
    'text of a container that controls the terminal of who reads it',
    'test/actors/log/logger.test.ts::text shows what controls a terminal',
    'test/node/local.test.ts::describe tells what happened',
  ),
  row(
    'A18',
    'an answer to a TokenRequest without a token, or without its end',
    'test/actors/kube/issued-tokens.test.ts::is no answer',
  ),
  row(
    'A19',
    'a server of a gRPC probe, or a plugin, that accepts connections and never answers',
    'test/actors/probe/watch.test.ts::to a server that never answers leaves no connection behind',
  ),
  row(
    'A20',
    'a Secret of several lines, or with quotes, as the name of a command that is not there',
    'test/actors/cri/secrets.test.ts::takes the value %j out of a text that quotes it',
  ),
  row(
    'A21',
    'clients that reset their connections right after their requests',
    'test/actors/server/tls/reset.test.ts::leaves neither connection nor answer behind',
  ),
  row(
    'A22',
    'a server of a gRPC probe that answers no attempt to connect',
    'test/actors/probe/watch.test.ts::to a server that accepts no connection leaves none behind',
  ),
  row(
    'A23',
    'an API server that explains itself in megabytes, or names objects by paths',
    'test/actors/kube/client.test.ts::keeps a page of what a server explains at length',
    `${decode}::pods.metadata.name: a segment of a path expected`,
    `${decode}::pods.metadata.resourceVersion: at most 1024 characters expected`,
    `${decode}::with a key of megabytes at fault quotes a part of it`,
  ),
  row(
    'A24',
    'Nodes and volumes of an API server whose lists are none',
    `${decode}::pods.status.conditions: a list expected`,
    `${decode}::[0].matchFields: a value expected, not null`,
  ),
  row(
    'A25',
    'a thousand pods of one name that are created and deleted at once, objects that change a hundred times a second',
    `${decode}::of objects that change faster than decisions reports the newest state of each`,
    `${decode}::tells an object that went and came back in this order`,
    'test/actors/cgroup/version-2.test.ts::is made before a thousand others are removed',
  ),
  row(
    'A26',
    'pods that are deleted while their cgroups are made',
    'test/actors/cgroup/version-2.test.ts::is not left behind by the requests of pods that are deleted while they start',
  ),
];
