/** `server.serveLocal`: the whole API of the node on a unix socket that only its owner may open. */
import { chmod, mkdir, unlink } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { dirname } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import type { PortCall } from '../../kernel/operation.ts';
import type { LocalSocket, ServerItem } from '../../machines/model/operations/server.ts';
import { aborted } from '../pause.ts';
import { ApiServer } from './http/api-server.ts';
import { type ApiDependencies, kubeletApi } from './kubelet-api.ts';

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
