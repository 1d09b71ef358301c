/**
 * A name server that receives every query and answers none, and a process that uses only this server: the resolver
 * waits for it for a minute and a half, and in emulation for glibc's maximum of seven minutes and a half.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isEmulated } from './patience.ts';

/** glibc's maximum for one query. */
const TIMEOUT_SECONDS = 30;
/** Attempts, and servers for each. Of three servers, the second has 20 seconds to answer and the third one 40. */
const [ATTEMPTS, SERVERS] = isEmulated ? [5, 3] : [3, 1];
/** The duration of a lookup that is not cancelled. */
export const LOOKUP_MS = TIMEOUT_SECONDS * ATTEMPTS * SERVERS * 1_000;

/** Why names cannot fail here; `null` if they can. */
export const deadNamesAvailable = (): string | null =>
  process.getuid?.() === 0 ? null : 'a name server and a mount namespace need root';

export class DeadNames {
  /** The number of queries. */
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
    writeFileSync(file, `${`nameserver ${socket.address().address}\n`.repeat(SERVERS)}${options}\n`);
    return new DeadNames(socket, file);
  }

  /** A command that runs the command line after it with these names only. */
  get within(): readonly string[] {
    return ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/resolv.conf && exec "$@"', this.#file];
  }

  close(): void {
    this.#socket.close();
  }
}
