/**
 * `users.map`: ids for the user namespaces of pods, in upstream's files (`pods/<uid>/userns`), the only state.
 *
 * Decides which range a pod gets: the first one that no file names. Invariants: two pods never share an id; the ids of
 * the node's own users are never assigned; an unreadable file is an error, because its ids may be in use.
 */
import { execFile } from 'node:child_process';
import { constants, fsync } from 'node:fs';
import { open, readdir, readFile, rename } from 'node:fs/promises';
import { promisify } from 'node:util';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf, Ports } from '../../kernel/operation.ts';
import { codeOf } from '../../kernel/thrown.ts';
import type { UserMapping, userOperations } from '../../machines/model/operations/users.ts';
import { openParent } from '../host/root-folder.ts';

const run = promisify(execFile);
const syncFolder = promisify(fsync);

/** The unit of ranges of ids; the first unit has the ids of the node's own users. */
const UNIT = 65_536;
/** Linux has ids below this. */
const IDS_END = 2 ** 32;
/** The user whose subordinate ids the pods get. */
const KUBELET_USER = 'kubelet';
const FILE = 'userns';
const MAX_FILE_BYTES = 4_096;
const SUBIDS_DEADLINE_MS = 10_000;

type Input = InputOf<(typeof userOperations)['users.map']>;

export interface UserNamespaceOptions {
  readonly passwd?: string;
  /** The program that knows subordinate ids. */
  readonly getsubids?: string;
}

/** Ids that may be given to pods. */
interface Pool {
  readonly first: number;
  readonly length: number;
}

export function userNamespacePorts(options: UserNamespaceOptions = {}): Ports<typeof userOperations> {
  let last: Promise<unknown> = Promise.resolve();
  return {
    'users.map': ({ input }) => {
      const next = last.then(
        () => map(input, options),
        () => map(input, options),
      );
      last = next;
      return next;
    },
  };
}

async function map(input: Input, options: UserNamespaceOptions): Promise<UserMapping> {
  const pool = await poolOf(input, options);
  const taken = new Map<string, UserMapping>();
  for (const uid of await podUids(input.root)) {
    const mapping = await readMapping(input.root, uid);
    if (mapping) taken.set(uid, mapping);
  }
  const granted = taken.get(input.uid);
  if (granted) return checked(granted, pool, input.idsPerPod);
  const used = new Set([...taken.values()].map(({ hostId }) => hostId));
  for (let hostId = pool.first; hostId + input.idsPerPod <= pool.first + pool.length; hostId += input.idsPerPod) {
    if (used.has(hostId)) continue;
    const mapping = { hostId, length: input.idsPerPod };
    await writeMapping(input.root, input.uid, mapping);
    return mapping;
  }
  throw new OperationError('create user namespace: could not find an empty slot to allocate a user namespace');
}

function checked(mapping: UserMapping, { first, length }: Pool, idsPerPod: number): UserMapping {
  const { hostId } = mapping;
  const refuse = (why: string) => new OperationError(`user namespace: ${why}`, { code: 'ERANGE' });
  if (mapping.length !== idsPerPod) throw refuse(`wrong user namespace length ${mapping.length}`);
  if (hostId % idsPerPod !== 0) throw refuse(`wrong user namespace offset specified ${hostId}`);
  if (hostId < first || hostId + idsPerPod > first + length) throw refuse(`id ${hostId} is out of range`);
  return mapping;
}

/** All ids of the machine but those of its own users: a pod of another kubelet may have any of them. */
const allIds = (idsPerPod: number): Pool => ({
  first: idsPerPod,
  length: Math.floor((IDS_END - idsPerPod) / idsPerPod) * idsPerPod,
});

async function poolOf({ idsPerPod, maxPods }: Input, options: UserNamespaceOptions): Promise<Pool> {
  const pool = (await subordinateIds(options)) ?? allIds(idsPerPod);
  const refuse = (why: string) => new OperationError(`kubelet user ${why}`, { code: 'ERANGE' });
  if (idsPerPod % UNIT !== 0) throw refuse(`namespace length ${idsPerPod} is not a multiple of ${UNIT}`);
  if (pool.first % idsPerPod !== 0) throw refuse(`assigned ID ${pool.first} is not a multiple of ${idsPerPod}`);
  if (pool.first < idsPerPod) throw refuse(`assigned ID ${pool.first} must be greater or equal to ${idsPerPod}`);
  if (pool.length % idsPerPod !== 0) {
    throw refuse(`assigned IDs length ${pool.length} is not a multiple of ${idsPerPod}`);
  }
  if (pool.length / idsPerPod < maxPods) throw refuse(`assigned IDs are not enough to support ${maxPods} pods`);
  return pool;
}

/** The subordinate ids of the agent; `null` if none are assigned. */
async function subordinateIds(options: UserNamespaceOptions): Promise<Pool | null> {
  const { passwd = '/etc/passwd', getsubids = 'getsubids' } = options;
  const users = await readFile(passwd, 'utf8').catch(() => '');
  if (!users.split('\n').some((line) => line.startsWith(`${KUBELET_USER}:`))) return null;
  try {
    const [uids, gids] = await Promise.all([subIds(getsubids, []), subIds(getsubids, ['-g'])]);
    if (uids !== gids) throw new OperationError(`mismatched subuids and subgids for user "${KUBELET_USER}"`);
    return parsePool(uids);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

async function subIds(program: string, args: readonly string[]): Promise<string> {
  const { stdout } = await run(program, [...args, KUBELET_USER], { timeout: SUBIDS_DEADLINE_MS });
  return stdout;
}

/** Parses a line like `0: kubelet 65536 7208960`. */
function parsePool(output: string): Pool {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const [, first, length] = /^0: \S+ (\d+) (\d+)$/.exec(lines[0]?.trim() ?? '') ?? [];
  if (lines.length === 1 && first !== undefined) return { first: Number(first), length: Number(length) };
  throw new OperationError(`error parsing the subordinate ids of user "${KUBELET_USER}": they are not one range`);
}

async function podUids(root: string): Promise<readonly string[]> {
  const entries = await readdir(`${root}/pods`, { withFileTypes: true }).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

const fileOf = (root: string, uid: string): string => `${root}/pods/${uid}/${FILE}`;

async function readMapping(root: string, uid: string): Promise<UserMapping | null> {
  const place = openParent(root, fileOf(root, uid));
  if (!place) return null;
  try {
    const file = await open(place.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_FILE_BYTES), 0, MAX_FILE_BYTES, 0);
      return parseMapping(buffer.toString('utf8', 0, bytesRead), uid);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  } finally {
    place.folder.close();
  }
}

interface Stored {
  readonly uidMappings?: readonly { readonly hostId: number; readonly containerId: number; readonly length: number }[];
  readonly gidMappings?: Stored['uidMappings'];
}

function parseMapping(text: string, uid: string): UserMapping {
  const refuse = (why: string) => new OperationError(`user namespace: invalid mappings file of pod ${uid}: ${why}`);
  let stored: Stored;
  try {
    stored = JSON.parse(text);
  } catch {
    throw refuse('it is not JSON');
  }
  const [mapping, ...more] = stored.uidMappings ?? [];
  if (!mapping || more.length > 0) throw refuse('it must hold one mapping');
  if (JSON.stringify(stored.uidMappings) !== JSON.stringify(stored.gidMappings)) {
    throw refuse('GID and UID mappings should be identical');
  }
  if (mapping.containerId !== 0) throw refuse('UID 0 must be mapped');
  if (![mapping.hostId, mapping.length].every(Number.isSafeInteger)) throw refuse('ids must be whole numbers');
  return { hostId: mapping.hostId, length: mapping.length };
}

/** Writes the file of a mapping completely to disk before a process runs with these ids. */
async function writeMapping(root: string, uid: string, { hostId, length }: UserMapping): Promise<void> {
  const place = openParent(root, fileOf(root, uid), 0o750);
  if (!place) throw new OperationError(`create user namespace: pod ${uid} has no folder`);
  try {
    const mappings = [{ hostId, containerId: 0, length }];
    const file = await open(`${place.path}.tmp`, 'w', 0o600);
    try {
      await file.writeFile(JSON.stringify({ uidMappings: mappings, gidMappings: mappings }));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${place.path}.tmp`, place.path);
    await syncFolder(place.folder.fd);
  } finally {
    place.folder.close();
  }
}
