/** The service manager's end of sd_notify: a real datagram socket, which Node itself does not support. */
import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

const AF_UNIX = 1;
const SOCK_DGRAM_NONBLOCK = 2 | 0o4000;
const koffi: typeof import('koffi') = createRequire(import.meta.url)('koffi');
const libc = koffi.load(null);
const socket = libc.func('int socket(int domain, int type, int protocol)');
const bind = libc.func('int bind(int fd, const void *address, uint32_t size)');
const receive = libc.func('int64_t recv(int fd, void *buffer, size_t length, int flags)');
const close = libc.func('int close(int fd)');

/** Binds the name (a leading `@` makes it abstract) and collects the received datagrams. */
export function datagramReceiver(address: string) {
  const fd: number = socket(AF_UNIX, SOCK_DGRAM_NONBLOCK, 0);
  onTestFinished(() => void close(fd));
  const name = Buffer.from(address.startsWith('@') ? address.replace('@', '\0') : `${address}\0`);
  if (bind(fd, Buffer.concat([Buffer.from([AF_UNIX, 0]), name]), name.length + 2) !== 0) throw new Error('bind failed');
  const buffer = Buffer.alloc(4_096);
  return {
    /** The next datagram as text. */
    async next(withinMs = 30_000): Promise<string> {
      for (const giveUpAt = Date.now() + withinMs; Date.now() < giveUpAt; await delay(5)) {
        const length = Number(receive(fd, buffer, buffer.length, 0));
        if (length >= 0) return buffer.toString('utf8', 0, length);
      }
      throw new Error(`nothing was sent to ${address} within ${withinMs} ms`);
    },
  };
}
