/**
 * Serves the visualizer, a page about the actors of this node, to users on this node.
 *
 * Owns: the HTTP routes. They only read the {@link Feed} of a running node and the files of a journal: no route changes
 * anything.
 * Invariants: it listens on loopback only; only a client that uses the server's own name and shows the token sees
 * anything ({@link PageAccess}); pages may only run scripts served here; a client that reads nothing holds neither
 * memory nor a place for long.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isAnswering, noteAnswering } from '../http/requests.ts';
import { Connections } from '../tls/listener.ts';
import { readAsset, readChart } from './assets.ts';
import type { Feed } from './feed.ts';
import type { JournalFiles } from './journal-files.ts';

const LOOPBACK = '127.0.0.1';
/** The limit of cookies read of one request: a browser sends those of other local programs, too. */
const COOKIES_MAX = 64;
const PATH_DIGITS = 32;

class PageAccess {
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

  /** Rejects a request without the token or from another origin; `undefined` if it is allowed. */
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

  /** Redirects a browser that came with the token to an address without it, which is safe to show and to copy. */
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
/** The same as a page; the policy allows it no style of its own. */
const NO_TOKEN_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Statelet: no token</title>
<h1>This page needs a token</h1>
<p>Open the address that the command printed, or add <code>?token=</code> and the content of
<code>visualizer.token</code> in the root directory of the daemon to this one.</p>
</html>
`;

/** The limit of open pages. A browser itself allows six for one address. */
const PAGES_MAX = 16;
/** Connections: pages, and the files that they load. All clients are on this machine. */
const CONNECTIONS = { port: 128, client: 128 };
/** A whole request: none has a body. */
const REQUEST_MS = 10_000;
/** A client that reads nothing of a file for this long is disconnected: it sleeps, or occupies its place on purpose. */
const STALLED_MS = 60_000;

const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types statelet',
].join('; ');

const HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': PAGE_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

export interface VisualizerOptions {
  /** 0 takes any free port. */
  readonly port: number;
  /** The secret of a client: as a bearer token, as the parameter `token`, or as the cookie that a browser then gets. */
  readonly token: string;
  /** The kernel's records, while the node runs. */
  readonly feed?: Feed;
  /** The journal that the page opens itself without a feed, and on demand with one. */
  readonly journal?: JournalFiles;
  /** The folder of charts; default: the project's. */
  readonly diagramsDir?: string;
  /** Milliseconds in which a client must take something of a file; default: a minute. */
  readonly stalledMs?: number;
}

export class Visualizer {
  private readonly options: VisualizerOptions;
  private readonly door: PageAccess;
  private app: FastifyInstance | undefined;
  private pages = 0;

  constructor(options: VisualizerOptions) {
    this.options = options;
    this.door = new PageAccess(options.token);
  }

  /** Starts to serve; resolves with the address of the page, token included. */
  async listen(): Promise<URL> {
    const { fastify } = await import('fastify');
    const app = fastify({
      logger: false,
      forceCloseConnections: true,
      requestTimeout: REQUEST_MS,
      // A HEAD of the stream would be a page that is never fed.
      exposeHeadRoutes: false,
      rewriteUrl: ({ url = '/' }) => this.door.inside(url),
    });
    const connections = new Connections(isAnswering, CONNECTIONS);
    app.server.on('connection', (socket) => void (connections.admit(socket) || socket.destroy()));
    app.addHook('onRequest', async ({ socket }, { raw }) => noteAnswering(socket, raw));
    this.app = app;
    app.addHook('onRequest', async (request, reply) => this.door.refuse(request, reply.headers(HEADERS)));
    app.setNotFoundHandler((request, reply) => missing(reply, `there is nothing at ${request.url.split('?', 1)[0]}`));
    this.routes(app);
    const url = new URL(await app.listen({ host: LOOPBACK, port: this.options.port }));
    url.searchParams.set('token', this.options.token);
    return url;
  }

  async close(): Promise<void> {
    await this.app?.close();
  }

  private routes(app: FastifyInstance): void {
    const { feed, journal } = this.options;
    app.get('/', (request, reply) => this.sendPage(request, reply));
    app.get<Named>('/assets/:name', ({ params }, reply) => sendAsset(reply, params.name));
    app.get<Named>('/diagrams/:name', ({ params }, reply) => this.sendChart(reply, params.name));
    app.get('/api/use', () => ({ use: feed ? 'daemon' : 'server' }));
    if (journal) this.journalRoutes(app, journal);
    if (feed) this.feedRoutes(app, feed);
  }

  private journalRoutes(app: FastifyInstance, journal: JournalFiles): void {
    app.get('/api/journal', () => ({ files: journal.names() }));
    app.get<{ Params: { '*': string } }>('/journal/*', ({ params }, reply) => {
      const path = journal.pathOf(params['*']);
      if (path === undefined) return missing(reply, `the journal has no file ${params['*']}: see /api/journal`);
      const { size } = statSync(path);
      reply.raw.setTimeout(this.options.stalledMs ?? STALLED_MS, () => reply.raw.destroy());
      reply.type('application/octet-stream');
      return reply.send(size === 0 ? '' : createReadStream(path, { end: size - 1 }));
    });
  }

  private feedRoutes(app: FastifyInstance, feed: Feed): void {
    app.get('/api/tree', () => feed.tree());
    app.get('/api/phases', () => feed.phases());
    app.get('/api/pods', () => feed.podList());
    app.get('/api/health', () => feed.health());
    app.get<Asked>('/api/actor', async ({ query }, reply) => {
      const detail = await feed.actor({ address: only(query['address']) ?? '' });
      return detail ?? missing(reply, `no actor ${JSON.stringify(only(query['address']))}: /api/tree lists them all`);
    });
    app.get<Asked>('/api/records', ({ query }) => feed.records({ after: wholeNumber(query['after']) ?? -1 }));
    app.get<Asked>('/events', (request, reply) => this.follow(request, reply, feed));
  }

  /** The page, which loads everything from its folder. */
  private async sendPage(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const moved = this.door.moveOn(request, reply);
    if (moved) return moved;
    const page = await readAsset('index.html');
    if (!page) return missing(reply, 'the program has lost its page; install it again');
    return reply.type(page.type).send(page.body.replaceAll('="/assets/', `="${this.door.folder}/assets/`));
  }

  private async sendChart(reply: FastifyReply, name: string): Promise<FastifyReply> {
    const { diagramsDir } = this.options;
    const chart = name.endsWith('.svg') ? await readChart(name, diagramsDir) : undefined;
    if (!chart) return missing(reply, `no chart ${name}: node scripts/generate-diagrams.ts`);
    return reply.type(chart.type).send(chart.body);
  }

  /** Opens the stream of turns after `Last-Event-ID`, else after `?after=`, else from now on. */
  private async follow(request: FastifyRequest<Asked>, reply: FastifyReply, feed: Feed): Promise<void> {
    if (this.pages >= PAGES_MAX) {
      void reply.code(503).send({ error: `${PAGES_MAX} pages are open already: close one` });
      return;
    }
    const after = wholeNumber(request.headers['last-event-id'] ?? request.query['after']);
    const { raw } = reply.hijack();
    raw.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream; charset=utf-8' });
    const gone = new AbortController();
    raw.once('close', () => gone.abort());
    this.pages++;
    try {
      await feed.follow({ after }, { signal: gone.signal, emit: writerTo(raw) });
    } finally {
      this.pages--;
      raw.destroy();
    }
  }
}

/** Writes to a page; resolves when there is space again. */
function writerTo(page: ServerResponse): (text: string) => Promise<void> | undefined {
  let room: Promise<void> | undefined;
  return (text) => {
    if (page.destroyed || page.write(text)) return undefined;
    room ??= new Promise((resolve) => {
      const done = () => {
        room = undefined;
        page.off('drain', done).off('close', done);
        resolve();
      };
      page.once('drain', done).once('close', done);
    });
    return room;
  };
}

interface Named {
  Params: { name: string };
}
/** A repeated parameter is a list. */
interface Asked {
  Querystring: Readonly<Record<string, string | string[] | undefined>>;
}

const only = (value: string | string[] | undefined): string | undefined =>
  typeof value === 'string' ? value : undefined;

async function sendAsset(reply: FastifyReply, name: string): Promise<FastifyReply> {
  const asset = await readAsset(name);
  return asset ? reply.type(asset.type).send(asset.body) : missing(reply, `no file ${name}`);
}

const missing = (reply: FastifyReply, error: string): FastifyReply => reply.code(404).send({ error });

function wholeNumber(value: string | string[] | undefined): number | null {
  const text = only(value);
  return text !== undefined && /^-?\d{1,15}$/.test(text) ? Number(text) : null;
}
