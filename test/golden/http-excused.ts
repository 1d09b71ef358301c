/** Recorded requests that this server answers differently, each with its reason; by the record's id. */
const ONE_THREAD = 'profiles of locks and of threads mean nothing where there is one thread; they do not exist here';

export const EXCUSED: Readonly<Record<string, string>> = {
  'get-065': 'V8 traces only from the main thread; tests run in another (`test/node/server.test.ts` asks a daemon)',
  'get-070': ONE_THREAD,
  'get-071': ONE_THREAD,
  'get-072': ONE_THREAD,
  'nodelogs-030': 'the corpus renamed the files of this listing; their names are those that nodelogs-006 asks for',
  'odd-path-021': 'the parser of Node takes two spaces after the target for one',
  'raw-002': 'Node answers HTTP/1.0 requests with the version of its own, as HTTP allows',
  'raw-008': 'hardened: a length beside chunks is refused, for proxies disagree about where such a request ends',
};
