/** Speaks to the daemon of this machine by its local socket. */
import { existsSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join, resolve } from 'node:path';
import type { Pod, PodStatus } from '../../machines/api/pod.ts';
import { LOCAL_SOCKET } from '../../machines/node/server-ports.ts';

/** Where kubelets and the quick start of this project keep their files. */
const ROOTS = ['/var/lib/kubelet', '.statelet', '.statelet/root'];

export interface LocalOptions {
  readonly rootDir?: string;
  readonly namespace: string;
}

export type LocalPod = Pod & { readonly status: PodStatus };

/** A refusal of the daemon, or no daemon, in words for a terminal. */
export class LocalError extends Error {}

/** The daemon's socket: below `--root-dir`, or the first that is where kubelets keep theirs. */
export function socketPath(rootDir?: string): string {
  const candidates = (rootDir === undefined ? ROOTS : [rootDir]).map((root) => resolve(join(root, LOCAL_SOCKET)));
  const found = candidates.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new LocalError(`no daemon serves ${candidates.join(' or ')}: start one, or name its folder with --root-dir`);
}

/** GET; resolves with the answer when its status is 200. */
export function ask(socket: string, path: string): Promise<IncomingMessage> {
  return new Promise((resolved, rejected) => {
    const asked = request({ socketPath: socket, path, headers: { accept: 'application/json, */*' } }, (response) => {
      if (response.statusCode === 200) return resolved(response);
      read(response).then((body) => rejected(new LocalError(body.trim())), rejected);
    });
    asked.once('error', (error: NodeJS.ErrnoException) =>
      rejected(new LocalError(`cannot speak to the daemon at ${socket}: ${error.message}`)),
    );
    asked.end();
  });
}

async function read(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

/** Pods of a namespace, by name; of all of them when it is empty. */
export async function pods(socket: string, namespace: string): Promise<LocalPod[]> {
  const { items } = JSON.parse(await read(await ask(socket, '/pods'))) as { items: LocalPod[] | null };
  const order = ({ metadata }: LocalPod) => `${metadata.namespace}/${metadata.name}`;
  return (items ?? [])
    .filter(({ metadata }) => namespace === '' || metadata.namespace === namespace)
    .sort((a, b) => order(a).localeCompare(order(b)));
}

/** One pod, with kubectl's refusal when there is none. A static pod may be named without the name of its node. */
export async function podNamed(socket: string, namespace: string, name: string): Promise<LocalPod> {
  const all = await pods(socket, namespace);
  const found =
    all.find(({ metadata }) => metadata.name === name) ??
    all.find(({ metadata, spec }) => metadata.name === `${name}-${spec.nodeName}`);
  if (found) return found;
  throw new LocalError(`Error from server (NotFound): pods ${JSON.stringify(name)} not found`);
}
