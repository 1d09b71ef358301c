/**
 * The page of a running node, served by the server thread, and its token: access for users who can read its file or
 * know it.
 *
 * Owns: the request to serve it. When the thread is lost it is served again, at the same address.
 */

import { randomBytes } from 'node:crypto';
import { lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { PlainError } from '../../../kernel/json.ts';
import { isThreadLost, REOPEN_MS } from '../../../machines/model/operations/server.ts';
import type { ServerThread } from '../thread/host.ts';

interface Listening {
  readonly href: string;
  readonly port: number;
}

export interface PageInput {
  /** 0 takes any free port. */
  readonly port: number;
  readonly token: string;
  /** Folder of the journal that the page may open; `null` if values in it are not handles. */
  readonly journal: string | null;
}

export class ServedPage {
  /** The address, token included; `null` while not served. */
  url: string | null = null;
  readonly #thread: Pick<ServerThread, 'open'>;
  readonly #input: Omit<PageInput, 'port'>;
  readonly #abort = new AbortController();
  #port: number;

  constructor(thread: Pick<ServerThread, 'open'>, { port, ...input }: PageInput) {
    this.#thread = thread;
    this.#port = port;
    this.#input = input;
  }

  /** Serves until closed. Rejects if no port can be opened. */
  async serve(): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      const input: PageInput = { ...this.#input, port: this.#port };
      try {
        await this.#thread.open('page', { input, signal, emit: (item: Listening) => this.#listens(item) });
      } catch (error) {
        this.url = null;
        if (!isThreadLost(error as PlainError)) throw error;
        await pause(REOPEN_MS);
      }
    }
  }

  close(): void {
    this.#abort.abort();
  }

  #listens({ href, port }: Listening): void {
    this.url = href;
    this.#port = port;
  }
}

const OWNER_ONLY = 0o600;
const TOKEN_BYTES = 24;

export const newToken = (): string => randomBytes(TOKEN_BYTES).toString('base64url');

/** A node keeps its token across starts, so that an open page keeps working. A file readable by others is replaced. */
export function keptToken(path: string): string {
  try {
    const { mode, uid } = lstatSync(path);
    const token = readFileSync(path, 'utf8').trim();
    const isOurs = (mode & 0o7777) === OWNER_ONLY && uid === process.getuid?.();
    if (isOurs && /^[\w-]{32}$/.test(token)) return token;
  } catch {
    // There is no token yet.
  }
  const token = newToken();
  rmSync(path, { force: true });
  writeFileSync(path, `${token}\n`, { mode: OWNER_ONLY, flag: 'wx' });
  return token;
}
