/** Requests to the daemon of this machine by its local socket. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { bytesOf } from '../../actors/byte-stream.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { Pod, PodStatus } from '../../machines/model/api/pod.ts';
import { LOCAL_SOCKET } from '../../machines/startup/server-ports.ts';

/** Where kubelets and the quick start of this project keep their files. */
const ROOTS = ['/var/lib/kubelet', '.statelet', '.statelet/root'];

/** Where the daemon's files are, according to its own command line. */
export interface DaemonPlace {
  readonly rootDir?: string;
  readonly dataDir?: string;
}

export interface LocalOptions extends DaemonPlace {
  readonly namespace: string;
}

export type LocalPod = Pod & { readonly status: PodStatus };

/** An error for the terminal: the daemon refused, or there is no daemon. */
export class LocalError extends Error {}

/** By error code, why a socket does not answer. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is none',
  ECONNREFUSED: 'its daemon has ended',
  EACCES: 'only its owner may speak to it',
};

/** The daemon's socket: in the given folder, or the first usual place where one answers. */
export async function socketPath({ rootDir, dataDir }: DaemonPlace): Promise<string> {
  const named = rootDir ?? dataDir;
  const tried: string[] = [];
  for (const root of named === undefined ? ROOTS : [named]) {
    const path = resolve(join(root, LOCAL_SOCKET));
    const why = await silence(path);
    if (why === null) return path;
    tried.push(`  ${path}: ${why}`);
  }
  const hint = 'start a node, or name the folder of one with --root-dir or --data-dir';
  throw new LocalError(`no node answers on this machine:\n${tried.join('\n')}\n${hint}`);
}

/** Why no server answers at the socket; `null` if one does. */
async function silence(path: string): Promise<string | null> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return null;
  } catch (error) {
    return REASONS[codeOf(error) ?? ''] ?? messageOf(error);
  } finally {
    socket.destroy();
  }
}

/** GET; resolves with the answer when its status is 200. */
export function ask(socket: string, path: string): Promise<IncomingMessage> {
  return new Promise((resolved, rejected) => {
    const clientRequest = request(
      { socketPath: socket, path, headers: { accept: 'application/json, */*' } },
      (response) => {
        if (response.statusCode === 200) return resolved(response);
        read(response).then((body) => rejected(refusalOf(response, body.trim())), rejected);
      },
    );
    clientRequest.once('error', (error: NodeJS.ErrnoException) =>
      rejected(new LocalError(`cannot speak to the daemon at ${socket}: ${error.message}`)),
    );
    clientRequest.end();
  });
}

/** The names of errors that kubectl prints, by HTTP status. */
const KINDS: Readonly<Record<number, string>> = { 400: 'BadRequest', 404: 'NotFound', 422: 'Invalid' };

function refusalOf({ statusCode = 0 }: IncomingMessage, body: string): LocalError {
  const kind = KINDS[statusCode];
  return new LocalError(kind === undefined ? body : `Error from server (${kind}): ${body}`);
}

const read = async (response: IncomingMessage): Promise<string> => (await bytesOf(response)).toString();

/** Pods of a namespace, by name; of all namespaces when it is empty. */
export async function pods(socket: string, namespace: string): Promise<LocalPod[]> {
  const { items }: { items: LocalPod[] | null } = JSON.parse(await read(await ask(socket, '/pods')));
  const order = ({ metadata }: LocalPod) => `${metadata.namespace}/${metadata.name}`;
  return (items ?? [])
    .filter(({ metadata }) => namespace === '' || metadata.namespace === namespace)
    .sort((a, b) => order(a).localeCompare(order(b)));
}

const PODS = ['pods', 'pod', 'po'];

/** The name of a pod that may have its kind before it: `pod/hello`. @throws LocalError for another kind */
export function nameOf(text: string): string {
  const [kind = '', name] = text.split('/', 2);
  if (name === undefined) return text;
  if (!PODS.includes(kind)) throw noSuchKind(kind);
  return name;
}

/** The pod that `pods`, `pod hello` and `pod/hello` name; undefined: all. @throws LocalError for another kind */
export function askedFor(resource: string, name: string | undefined): string | undefined {
  if (resource.includes('/')) return nameOf(resource);
  if (!PODS.includes(resource)) throw noSuchKind(resource);
  return name;
}

const noSuchKind = (kind: string): LocalError =>
  new LocalError(`error: a node knows pods only, not ${JSON.stringify(kind)}`);

/** One pod, with kubectl's refusal when there is none. A static pod may be named without the name of its node. */
export async function podNamed(socket: string, namespace: string, text: string): Promise<LocalPod> {
  const name = nameOf(text);
  const all = await pods(socket, namespace);
  const found =
    all.find(({ metadata }) => metadata.name === name) ??
    all.find(({ metadata, spec }) => metadata.name === `${name}-${spec.nodeName}`);
  if (found) return found;
  throw new LocalError(`Error from server (NotFound): pods ${JSON.stringify(name)} not found`);
}

/** The named container, or the first one; a note names it if the pod has others. */
export function containerOf({ spec, metadata }: LocalPod, named: string | undefined): string {
  const { containers, initContainers = [], ephemeralContainers = [] } = spec;
  if (named !== undefined) return named;
  const chosen = metadata.annotations?.['kubectl.kubernetes.io/default-container'] ?? containers[0]?.name ?? '';
  const all = [
    ...containers.map(({ name }) => name),
    ...ephemeralContainers.map(({ name }) => `${name} (ephem)`),
    ...initContainers.map(({ name }) => `${name} (init)`),
  ];
  if (all.length > 1) process.stderr.write(`Defaulted container ${JSON.stringify(chosen)} out of: ${all.join(', ')}\n`);
  return chosen;
}
