/** Some endpoints of the node's API on a port of their own, without authentication. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { ApiServer } from '../../src/actors/server/http/api-server.ts';
import type { Endpoint } from '../../src/actors/server/http/endpoint.ts';

export interface Front {
  readonly port: number;
  close(): Promise<void>;
}

export async function openFront(endpoints: readonly Endpoint[]): Promise<Front> {
  const api = await new ApiServer({ endpoints, gate: async () => null }).open();
  const front = createServer((socket) => api.accept(socket)).listen(0, '127.0.0.1');
  await once(front, 'listening');
  const close = async () => {
    await api.close();
    front.close();
  };
  return { port: (front.address() as AddressInfo).port, close };
}
