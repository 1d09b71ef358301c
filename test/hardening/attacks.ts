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
];
