/** A relay in front of a server that can stop forwarding: connections stay open, and nothing passes any more. */
import { connect, createServer, type Socket } from 'node:net';

export interface TcpRelay {
  readonly port: number;
  /** Existing connections receive nothing more, without notice; later connections work. */
  freeze(): void;
  close(): Promise<void>;
}

/** `port`: 0 for any. */
export async function startRelay(targetPort: number, port = 0): Promise<TcpRelay> {
  const pairs = new Set<readonly [Socket, Socket]>();
  const server = createServer((near) => {
    const far = connect(targetPort, '127.0.0.1');
    const pair = [near, far] as const;
    pairs.add(pair);
    near.pipe(far).pipe(near);
    for (const [socket, other] of [pair, [far, near] as const]) {
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        other.destroy();
        pairs.delete(pair);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    freeze: () => {
      for (const [near, far] of pairs) {
        near.unpipe(far);
        far.unpipe(near);
        near.pause();
        far.pause();
      }
    },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const [near, far] of pairs) {
        near.destroy();
        far.destroy();
      }
      await closed;
    },
  };
}
