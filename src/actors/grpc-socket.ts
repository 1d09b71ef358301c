/** Serves gRPC on a Unix socket. Access is controlled by the socket's directory. */
import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../kernel/json.ts';

export function bindSocket(server: grpc.Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.bindAsync(`unix://${path}`, grpc.ServerCredentials.createInsecure(), (error) => {
      if (error) reject(new OperationError(`cannot listen on ${path}: ${error.message}`));
      else resolve();
    });
  });
}
