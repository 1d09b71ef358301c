/**
 * Who may see the page: a client that asks by the server's own name and shows the token.
 *
 * Invariants: a name that merely resolves to loopback is refused, so no foreign page gets in through DNS; a browser
 * shows the token once, in the address that it is opened with, and from then on as a cookie of a path that only an
 * owner of the token knows. Browsers send the cookies of a host to every port of it: without that path, any other
 * program on this machine that the same browser visits would get the token.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';

export const LOOPBACK = '127.0.0.1';
/** Cookies read of one request: a browser sends those of other local programs too. */
const COOKIES_MAX = 64;
const PATH_DIGITS = 32;

export class Door {
  /** The folder of the page and of all that it loads, for browsers; other clients need none. */
  readonly folder: string;
  readonly #token: string;

  constructor(token: string) {
    this.#token = token;
    this.folder = `/${digest(`page ${token}`).toString('hex').slice(0, PATH_DIGITS)}`;
  }

  /** The path of a request without the page's folder. */
  inside(path: string): string {
    return path.startsWith(`${this.folder}/`) ? path.slice(this.folder.length) : path;
  }

  /** Answers a request that may not be answered otherwise. */
  refuse({ socket, headers, query }: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
    const { localPort } = socket;
    const { host = '', origin = `http://${host}` } = headers;
    const isOwn = host === `${LOOPBACK}:${localPort}` || host === `localhost:${localPort}`;
    if (!isOwn || origin !== `http://${host}`) {
      return reply.code(403).send({ error: `this server answers to ${LOOPBACK}:${localPort} only` });
    }
    const bearer = /^Bearer (\S{1,512})$/i.exec(headers.authorization ?? '')?.[1];
    const shown = [bearer, tokenIn(query), cookieOf(headers.cookie ?? '', nameFor(localPort))];
    if (shown.some((each) => each !== undefined && this.#isToken(each))) return undefined;
    reply.code(401).header('www-authenticate', 'Bearer');
    const isRead = (headers.accept ?? '').includes('text/html');
    return isRead ? reply.type('text/html; charset=utf-8').send(NO_TOKEN_PAGE) : reply.send({ error: NO_TOKEN });
  }

  /** Sends a browser that came with the token on to an address without it, which it keeps, copies and shows instead. */
  moveOn({ socket, query }: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
    const token = tokenIn(query);
    if (token === undefined || !this.#isToken(token)) return undefined;
    const cookie = `${nameFor(socket.localPort)}=${token}; Path=${this.folder}/; HttpOnly; SameSite=Lax`;
    return reply.header('set-cookie', cookie).redirect(`${this.folder}/`, 303);
  }

  /** Compares in constant time, so that the duration does not reveal where they differ. */
  #isToken(text: string): boolean {
    return timingSafeEqual(digest(text), digest(this.#token));
  }
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** A repeated parameter is none. */
function tokenIn(query: unknown): string | undefined {
  const { token } = query as { readonly token?: unknown };
  return typeof token === 'string' ? token : undefined;
}

const nameFor = (port: number | undefined): string => `statelet-${port}`;

function cookieOf(header: string, name: string): string | undefined {
  const cookies = header.split(';', COOKIES_MAX).map((cookie) => cookie.trim());
  return cookies.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1);
}

const NO_TOKEN =
  'this page needs a token: open the address that the command printed, with `?token=` and the content of visualizer.token ' +
  'in the root directory of the daemon, or send `Authorization: Bearer <token>`';
/** The same for a person; the policy allows it no style of its own. */
const NO_TOKEN_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Statelet: no token</title>
<h1>This page needs a token</h1>
<p>Open the address that the command printed, or add <code>?token=</code> and the content of
<code>visualizer.token</code> in the root directory of the daemon to this one.</p>
</html>
`;
