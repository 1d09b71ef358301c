/** What the recordings had beside the node: files of the host, a registry, two gRPC servers with health checks. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server as SocketServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { Registry, registryAvailable } from '../../support/registry.ts';
import { PULLED } from './cases.ts';

/** The ports of the recorded servers, and their answers. */
const HEALTH: Readonly<Record<string, 'SERVING' | 'NOT_SERVING'>> = { 50051: 'SERVING', 50052: 'NOT_SERVING' };

export class Helpers {
  /** The names in the recordings, and their values here. */
  readonly words: ReadonlyMap<string, string>;
  readonly #close: readonly (() => unknown)[];

  private constructor(words: ReadonlyMap<string, string>, close: readonly (() => unknown)[]) {
    this.words = words;
    this.#close = close;
  }

  static async start(hostDirectory: string): Promise<Helpers> {
    const words = new Map([['${HOST}', hostDirectory]]);
    const socket = hostFiles(hostDirectory);
    const servers: grpc.Server[] = [];
    for (const [port, status] of Object.entries(HEALTH)) {
      const server = new grpc.Server();
      servers.push(server);
      words.set(port, String(await serveHealth(server, status)));
    }
    const registry = registryAvailable() === null ? await new Registry({ locked: false }).start() : undefined;
    if (registry !== undefined) {
      words.set('localhost:5000', registry.host);
      for (const image of Object.values(PULLED).flat()) {
        const [repository = '', tag = ''] = image.split(':');
        await registry.push(repository, tag);
      }
    }
    const stopServers = () => servers.forEach((server) => server.forceShutdown());
    return new Helpers(words, [() => socket.close(), stopServers, () => registry?.close()]);
  }

  async close(): Promise<void> {
    for (const close of this.#close) await close();
  }
}

function hostFiles(directory: string): SocketServer {
  mkdirSync(join(directory, 'dir'), { recursive: true });
  writeFileSync(join(directory, 'file'), '');
  return createServer().listen(join(directory, 'sock'));
}

/** Resolves with the port. */
function serveHealth(server: grpc.Server, status: string): Promise<number> {
  const definitions = loadSync('grpc/health/v1/health.proto', {
    includeDirs: [fileURLToPath(new URL('../../../proto', import.meta.url))],
    enums: String,
  });
  const check: grpc.handleUnaryCall<object, object> = (_call, callback) => callback(null, { status });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract is text, read at run time
  server.addService(definitions['grpc.health.v1.Health'] as grpc.ServiceDefinition, { Check: check });
  return new Promise((resolve, reject) => {
    const credentials = grpc.ServerCredentials.createInsecure();
    server.bindAsync('127.0.0.1:0', credentials, (error, port) => (error ? reject(error) : resolve(port)));
  });
}
