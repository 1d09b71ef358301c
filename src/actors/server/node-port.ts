/**
 * `server.serve` and `server.serveLocal`: the kubelet's port (10250), the read-only one (10255), and the local socket.
 *
 * Owns: the listeners while they are wanted. A request never becomes an input of the kernel: it reads the state of the
 * machines (`NodeView`), asks the runtime or the host directly, and is counted.
 */

import { chmod, mkdir, unlink } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { dirname } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import type { PortCall } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { LocalSocket, ServedPort, ServerItem } from '../../machines/model/operations/server.ts';
import { aborted } from '../pause.ts';
import { RequestTracing } from '../tracing/request-tracing.ts';
import type { Create } from './authentication.ts';
import { accessReviewer, alwaysAllow, authenticate, authorize, tokenReviewer, unauthorized } from './authentication.ts';
import { ApiServer, type Gate } from './http/api-server.ts';
import { sentMethod } from './http/requests.ts';
import { type ApiDependencies, kubeletApi, readOnlyApi } from './kubelet-api.ts';
import { Listener } from './tls/listener.ts';
import { factsOf, loadMaterial, type Material, type MaterialFiles, watchMaterial } from './tls/material.ts';

export interface ServerOptions extends ApiDependencies {
  /** Creates reviews in the API server. */
  readonly create: Create;
  /** Reports problems that no machine handles: an endpoint that threw. */
  readonly warn: (sentence: string) => void;
}

type Call = Pick<PortCall<ServedPort, ServerItem>, 'input' | 'signal' | 'emit'>;

export async function servePort(call: Call, options: ServerOptions): Promise<null> {
  const { input, signal } = call;
  const { secure, settings } = input;
  const files = secure && filesOf(secure);
  const material = files && (await firstMaterial(files, secure.tls.mayBeMissing));
  const { endpoints, slashed } = secure ? kubeletApi(settings, options) : readOnlyApi(options);
  const serverType = secure ? 'readwrite' : 'readonly';
  let isTrusted: Listener['isTrusted'] = () => false;
  const gate = secure ? gateOf(secure.auth, settings.nodeName, options, (socket) => isTrusted(socket)) : openGate;
  const tracing = new RequestTracing(options, settings.nodeName, !secure);
  const api = await new ApiServer({
    endpoints,
    slashed,
    gate,
    traced: tracing.begin,
    onRequest: (method, path) => options.requests.began(serverType, method, path),
    onAnswered: (method, path, ms) => options.requests.answered(serverType, method, path, ms),
    onFailure: (path, error) => options.warn(`the answer to ${path} failed: ${messageOf(error)}`),
  }).open();
  const listener = new Listener({
    address: input.address,
    port: input.port,
    accept: (socket) => api.accept(socket),
    tls: secure && { ...secure.tls, clientCertificates: secure.auth.clientCAFile !== '' },
  });
  isTrusted = listener.isTrusted;
  if (material) listener.use(material);
  try {
    const port = await listened(listener, input);
    if (!signal.aborted) call.emit({ type: 'server.listening', address: input.address, port });
    if (files) await followMaterial(call, files, material, listener);
    else await aborted(signal);
  } finally {
    await Promise.all([listener.close(), api.close()]);
    tracing.close();
  }
  return null;
}

const filesOf = ({ tls, auth }: NonNullable<ServedPort['secure']>): MaterialFiles => ({
  ...tls,
  clientCAFile: auth.clientCAFile,
  ...(auth.isClientCAFixed === true ? { isClientCAFixed: true } : {}),
});

const openGate: Gate = async () => null;

function gateOf(
  auth: NonNullable<ServedPort['secure']>['auth'],
  nodeName: string,
  { create, requests }: ServerOptions,
  isTrusted: Listener['isTrusted'],
): Gate {
  const credentials = {
    anonymous: auth.anonymous,
    clientCertificates: auth.clientCAFile !== '',
    ...(auth.ignoresUids === true ? { ignoresUids: true } : {}),
    isTrusted,
    reviewToken: auth.webhookAuthentication
      ? tokenReviewer(create, { tokenMs: auth.tokenTtlMs }, requests.auth.tokens)
      : null,
    onCertificate: (notAfterMs: number) => requests.auth.shown(notAfterMs),
  };
  const ttls = { authorizedMs: auth.authorizedTtlMs, unauthorizedMs: auth.unauthorizedTtlMs };
  const mayHave = auth.authorization === 'Webhook' ? accessReviewer(create, nodeName, ttls) : alwaysAllow;
  return async (request, { subresources }) => {
    const found = await authenticate(request, credentials);
    if ('refused' in found) return unauthorized();
    return await authorize(found.user, sentMethod(request), subresources, mayHave);
  };
}

async function firstMaterial(files: MaterialFiles, mayBeMissing: boolean): Promise<Material | null> {
  try {
    return await loadMaterial(files);
  } catch (error) {
    if (mayBeMissing && codeOf(error) === 'ENOENT') return null;
    throw new OperationError(messageOf(error), { code: 'FAILED_PRECONDITION' });
  }
}

async function listened(listener: Listener, { address, port }: ServedPort): Promise<number> {
  try {
    return await listener.listen();
  } catch (error) {
    const [code, message] = [codeOf(error), messageOf(error)];
    // Go resolves a host name before it binds.
    if (code === 'ENOTFOUND') throw new OperationError('listen tcp: lookup <nil>: no such host', { code });
    const why = (code && SYSTEM_TEXTS[code]) || message;
    const host = address.includes(':') ? `[${address}]` : address;
    throw new OperationError(`listen tcp ${host}:${port}: bind: ${why}`, code === undefined ? {} : { code });
  }
}

const SYSTEM_TEXTS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'address already in use',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'cannot assign requested address',
};

async function followMaterial(
  call: Call,
  files: MaterialFiles,
  known: Material | null,
  listener: Listener,
): Promise<void> {
  await watchMaterial(
    files,
    known,
    call.signal,
    ({ material, isCertificateNew, isAuthorityNew }) => {
      listener.use(material);
      if (isCertificateNew) call.emit({ type: 'server.certificateChanged', ...factsOf(material) });
      if (isAuthorityNew) call.emit({ type: 'server.clientCAChanged' });
    },
    (message) => {
      if (!call.signal.aborted) call.emit({ type: 'server.reloadFailed', message });
    },
  );
}

/** The kernel's limit on the path of a socket. */
const PATH_MAX_BYTES = 107;
const OWNER_ONLY = 0o600;
/** The mode that the start gives the folder, which it may be creating at the same time. */
const FOLDER_MODE = 0o750;

export async function serveLocal(
  call: Pick<PortCall<LocalSocket, ServerItem>, 'input' | 'signal' | 'emit'>,
  options: ApiDependencies,
): Promise<null> {
  const { path, settings } = call.input;
  if (Buffer.byteLength(path) > PATH_MAX_BYTES) {
    throw new OperationError(`the path of a socket has at most ${PATH_MAX_BYTES} bytes: choose a shorter --root-dir`);
  }
  const { endpoints, slashed } = kubeletApi(settings, options);
  const api = await new ApiServer({ endpoints, slashed, gate: async () => null }).open();
  const server = createServer((socket) => api.accept(socket));
  try {
    await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
    await unlink(path).catch(() => {});
    await listen(server, path);
    await chmod(path, OWNER_ONLY);
    call.emit({ type: 'server.listening', address: path, port: 0 });
    await aborted(call.signal);
  } finally {
    server.close();
    await api.close();
  }
  return null;
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.removeListener('error', reject);
      server.on('error', () => {});
      resolve();
    });
  });
}
