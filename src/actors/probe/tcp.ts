/** A TCP probe: who accepts a connection is well. Nothing is sent. */
import { createConnection } from 'node:net';
import { dialText, hostPort } from '../go-errors.ts';
import { type Attempt, type AttemptOptions, failure, success } from './attempt.ts';

export function probeTcp(host: string, port: number, { timeoutSeconds, signal }: AttemptOptions): Promise<Attempt> {
  const address = hostPort(host, port);
  return new Promise((resolve) => {
    const socket = createConnection({ host, port, signal });
    const end = (attempt: Attempt): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(attempt);
    };
    const timer = setTimeout(() => end(failure(`dial tcp ${address}: i/o timeout`)), timeoutSeconds * 1_000);
    socket.once('connect', () => end(success('')));
    socket.once('error', (error) => end(failure(dialText(address, error))));
  });
}
