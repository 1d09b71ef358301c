/**
 * A name server that hears every question and answers none, and a process that asks only it: the resolver waits for it
 * as long as it may, a minute and a half.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The longest that glibc allows for one question, and how often it is asked. */
const [TIMEOUT_SECONDS, ATTEMPTS] = [30, 3];
/** How long a lookup takes that is waited for. */
export const LOOKUP_MS = TIMEOUT_SECONDS * ATTEMPTS * 1_000;

/** Why no names can be dead here; `null` when they can. */
export const deadNamesAvailable = (): string | null =>
  process.getuid?.() === 0 ? null : 'a name server and a mount namespace need root';

export class DeadNames {
  /** Questions that came. */
  questions = 0;
  readonly #socket: Socket;
  readonly #file: string;

  private constructor(socket: Socket, file: string) {
    this.#socket = socket;
    this.#file = file;
    socket.on('message', () => this.questions++);
  }

  /** Writes its resolv.conf into `folder`. */
  static async start(folder: string): Promise<DeadNames> {
    const socket = createSocket('udp4');
    const part = () => 1 + Math.floor(Math.random() * 250);
    socket.bind(53, `127.${part()}.${part()}.${part()}`);
    await once(socket, 'listening');
    const file = join(folder, 'resolv.conf');
    const options = `options timeout:${TIMEOUT_SECONDS} attempts:${ATTEMPTS}`;
    writeFileSync(file, `nameserver ${socket.address().address}\n${options}\n`);
    return new DeadNames(socket, file);
  }

  /** What makes a process of a command line that follows, with these names and no others. */
  get within(): readonly string[] {
    return ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/resolv.conf && exec "$@"', this.#file];
  }

  close(): void {
    this.#socket.close();
  }
}
