/** Recorded commands of kubectl that end differently here, each with its reason; by file and place in it. */
type Excuses = Readonly<Record<string, string>>;

const IMAGE = 'another image: its PATH and its users are those of its busybox, and it has a root of its own';
const NO_SERVICE = `${IMAGE}; and the test API server has no Service \`kubernetes\``;
const PRINTED = 'the API server prints the columns: the test API server prints fewer, and its own words for a phase';
const TAINTED = 'the API server taints a node that is new: the test API server does not';
const OTHER_PODS = 'other pods were there when it was recorded, some of them for a second time';
const UNLIMITED = 'what a group of cgroup v1 without a limit says is not told as a limit of the pod';
const ITSELF = 'what the agent is: its command line, its flags and files, its version of Go';
const REFUSED = 'the refusal is of the API server: the test API server leaves it to the node';

const BEGUN = 'how often the pods `crash` and `shell2` have begun again by now';

const SHELL = 'nobody ended the shell of this pod so often here that it had to wait';

const EXCUSED: Excuses = {
  'exec-websocket#34': NO_SERVICE,
  'exec-spdy#34': NO_SERVICE,
  'exec-websocket#35': IMAGE,
  'exec-spdy#35': IMAGE,
  'logs#1': 'which of two lines of two streams the runtime wrote first was its luck; here they are apart',
  'describe#11': `${UNLIMITED}; and its fifth start was recorded`,
  'describe#13': UNLIMITED,
  'describe#14': 'other images are there, another port, and the features that a node declares are those it has',
  'events#14': SHELL,
  'events#15': SHELL,
  'events#35': 'the recorded API server was of a downstream build, with one more source in each volume of a token',
  'get-raw#4': OTHER_PODS,
  'get-raw#5': OTHER_PODS,
  'get-raw#10': 'the recorder cut it off in the middle of a number; the families are held against their own recording',
  'get-raw#11': ITSELF,
  'get-raw#12': 'the files of another machine, of which the recording has only a remark',
  'get-raw#18': ITSELF,
  'get-raw#19': ITSELF,
  'get-raw#23': ITSELF,
  'debug#1': IMAGE,
  'delete-wait#16': OTHER_PODS,
  'delete-wait#17': OTHER_PODS,
};

/** Differences of the test API server from a real one. */
const OF_TEST_SERVER: Excuses = {
  'describe#0': TAINTED,
  'describe#6': PRINTED,
  'describe#7': PRINTED,
  'describe#8': PRINTED,
  'get-raw#27': 'the API server dials the pod itself, which the test API server does not: the node has no part in it',
  'get-raw#29': REFUSED,
  'get-raw#30': REFUSED,
  'get-raw#31': REFUSED,
  'debug#2': 'the API server fills in what is left out: the test API server does not',
  'debug#14': 'kubectl sends this pod in protobuf, which the test API server does not read',
};

const ORDER = 'kubectl asks for the logs of several containers in any order, and ends with the first refusal';
const REMOVED = 'the container had just been removed when this was recorded; here it may still be there';
const TYPED = 'what is typed before kubectl listens is shown as it comes, and the shell asks where its cursor is';
const REPORTED = 'whether the end of the container is reported yet when kubectl asks';
const LAST_WORDS = 'whether a client whose input has ended still hears the answer to it is a race inside the runtime';

/** Commands that are not always equal, each with its reason. */
const LUCK: Excuses = {
  'logs#32': ORDER,
  'logs#37': REMOVED,
  'logs#38': REMOVED,
  'attach-websocket#6': LAST_WORDS,
  'attach-spdy#6': LAST_WORDS,
  'attach-websocket#8': TYPED,
  'attach-spdy#8': TYPED,
  'attach-websocket#10': REPORTED,
  'attach-spdy#10': REPORTED,
  'describe#2': 'its fifth start was recorded; here it may be at another one',
  'describe#4': 'images are looked for ahead of the containers that need them, so one event more may be there already',
  'describe#6': BEGUN,
  'describe#7': BEGUN,
  'events#38': LAST_WORDS,
  'events#78': 'a probe may come before its server listens, from another address',
  'debug#4': TYPED,
  'debug#5': LAST_WORDS,
  'debug#6': TYPED,
  'debug#8': 'whether the node has seen yet that the container has just ended',
  'debug#15': LAST_WORDS,
};

interface Server {
  readonly isReal: boolean;
  readonly minor: number;
}

/** Events with the same kind and reason, by their places. */
const events = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, at) => `events#${from + at}`);
const ofDebug = (...places: readonly number[]): string[] => places.map((at) => `debug#${at}`);

/** Features that a real API server before this version lacks. */
const OF_OLD_SERVERS: readonly { readonly before: number; readonly why: string; readonly ids: readonly string[] }[] = [
  {
    before: 25,
    why: 'it serves no ephemeral containers',
    ids: [
      ...ofDebug(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 15),
      ...events(25, 29),
      ...events(53, 57),
      ...events(70, 74),
    ],
  },
  { before: 32, why: 'it knows no `stream` of logs, and leaves it to the node', ids: ['get-raw#29', 'get-raw#30'] },
  {
    before: 34,
    why: 'it drops what it does not know of a status: `observedGeneration`, `hostIPs`, `resources`',
    ids: ['describe#12', 'logs-more#8'],
  },
  { before: 36, why: 'it prints a kernel without its architecture', ids: ['describe#8'] },
];

/** The differences that must occur and those that may occur with this API server. */
export function excusesFor({ isReal, minor }: Server): {
  readonly certain: ReadonlySet<string>;
  readonly possible: ReadonlySet<string>;
} {
  const old = isReal ? OF_OLD_SERVERS.filter(({ before }) => minor < before) : [];
  const certain = { ...EXCUSED, ...(isReal ? {} : OF_TEST_SERVER) };
  return {
    certain: new Set(Object.keys(certain).filter((id) => !old.some(({ ids }) => ids.includes(id)))),
    possible: new Set([...Object.keys(LUCK), ...old.flatMap(({ ids }) => ids)]),
  };
}
