/**
 * Serves the visualizer: a page that shows what the actors of this node do, to people on this node.
 *
 * Owns: the HTTP routes and what may be asked of them. It only looks: no route changes anything.
 * Hears: `onTurn` of the kernel, which keeps the read model current whether a page is open or not.
 * Invariants: it listens on loopback only; a request under any other name is refused, so no foreign page can reach it
 * through DNS; pages may run no script but the files served here.
 */
import { pathToFileURL } from 'node:url';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { KernelRecord } from '../../../kernel/records.ts';
import { PACKAGE_DIRECTORY } from '../../package-directory.ts';
import { readAsset } from './assets.ts';
import { type SeenTurn, shownTrimmed } from './history.ts';
import { Observer } from './observer.ts';
import type { ActorDetail, HelloMessage, PhasesView, TreeView, TurnMessage } from './protocol.ts';
import { CLIENTS_MAX, Stream } from './stream.ts';
import { shortText } from './trim.ts';

const LOOPBACK = '127.0.0.1';
/** Characters of an actor's context: a pod with its status, not a cache of a whole node. */
const CONTEXT_MAX_CHARS = 65_536;
/** Records of one actor in its details. */
const ACTOR_RECORDS = 100;

/** Where the charts are, drawn when the project is built: `<machine id>.svg`. */
const DIAGRAMS = pathToFileURL(`${PACKAGE_DIRECTORY}/docs/diagrams/`);

const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');
/** A chart's own style is for readers of the file; the page has its own, and allows no other. */
const CHART_STYLE = /<style>[^<]*<\/style>\n?/;

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
  /** Other charts than the project's. */
  readonly diagramsDir?: string;
  /** The kernel's clock, for what lasts until now. */
  readonly now?: () => number;
  /** Of a journal that is looked at; absent: a node that runs. */
  readonly recorded?: Recorded;
}

/** A journal that was run again to be looked at. */
export interface Recorded {
  /** Records that can be looked back at. */
  readonly recordsMax: number;
  /** The actors as they were at the end of the turn of this record; undefined: it is not in the journal. */
  readonly kernelAt: (n: number) => Kernel | undefined;
  /** Why what is shown is not all of the journal. */
  readonly note?: () => string | undefined;
}

export class Visualizer {
  private readonly options: VisualizerOptions;
  private readonly observer: Observer;
  private readonly stream = new Stream();
  private kernel: Kernel | undefined;
  private app: FastifyInstance | undefined;

  constructor(options: VisualizerOptions) {
    this.options = options;
    this.observer = new Observer(options.recorded?.recordsMax);
  }

  /** For {@link Kernel}'s option of this name; may be called before `listen`. */
  readonly onTurn = (records: readonly KernelRecord[], kernel: Kernel): void => {
    this.kernel = kernel;
    const turn = this.observer.observe(records, kernel);
    if (this.stream.size > 0) this.stream.send(this.message(turn));
  };

  /** Starts to serve; resolves with the address of the page. */
  async listen(): Promise<URL> {
    const { fastify } = await import('fastify');
    const app = fastify({ logger: false, forceCloseConnections: true });
    this.app = app;
    app.addHook('onRequest', async (request, reply) => this.admit(request, reply));
    app.setNotFoundHandler((request, reply) => missing(reply, `there is nothing at ${request.url}`));
    this.routes(app);
    return new URL(await app.listen({ host: LOOPBACK, port: this.options.port }));
  }

  async close(): Promise<void> {
    this.stream.close();
    await this.app?.close();
  }

  /** Only requests that name this very address: a name that merely resolves to loopback is a foreign page's. */
  private async admit(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
    reply.headers(HEADERS);
    const { localPort } = request.socket;
    const host = request.headers.host;
    if (host === `${LOOPBACK}:${localPort}` || host === `localhost:${localPort}`) return undefined;
    return reply.code(403).send({ error: `this server answers to ${LOOPBACK}:${localPort} only` });
  }

  private routes(app: FastifyInstance): void {
    app.get('/', (_request, reply) => sendAsset(reply, 'index.html'));
    app.get<Named>('/assets/:name', ({ params }, reply) => sendAsset(reply, params.name));
    app.get<Named>('/diagrams/:name', ({ params }, reply) => this.sendChart(reply, params.name));
    app.get('/api/tree', () => this.tree());
    app.get('/api/phases', () => this.phases());
    app.get<Asked>('/api/actor', ({ query }, reply) => {
      const address = only(query['address']) ?? '';
      return (
        this.actor(address, wholeNumber(query['at'], -1)) ??
        missing(reply, `no actor ${JSON.stringify(address)}: /api/tree lists them all`)
      );
    });
    app.get<Asked>('/api/records', ({ query }) =>
      this.observer.history.recordsAfter(
        wholeNumber(query['after'], -1),
        wholeNumber(query['limit'], this.observer.history.recordsMax),
      ),
    );
    app.get<Asked>('/events', (request, reply) => this.follow(request, reply));
  }

  private async sendChart(reply: FastifyReply, name: string): Promise<FastifyReply> {
    const { diagramsDir } = this.options;
    const chart = await readAsset(name, diagramsDir === undefined ? DIAGRAMS : pathToFileURL(`${diagramsDir}/`));
    if (!chart || !name.endsWith('.svg')) return missing(reply, `no chart ${name}: node scripts/generate-diagrams.ts`);
    return reply.type(chart.type).send(chart.body.replace(CHART_STYLE, ''));
  }

  // ---- answers ------------------------------------------------------------------------------------------------------

  private now(): number {
    return this.options.now?.() ?? Date.now();
  }

  private tree(): TreeView {
    const { incarnation, node, root, n, turn, history } = this.observer;
    const { recorded } = this.options;
    const note = recorded?.note?.();
    const facts = { incarnation, node, root, n, turn, now: this.now(), recordsMax: history.recordsMax };
    return { ...facts, live: !recorded, ...(note ? { note } : {}), actors: this.observer.views() };
  }

  private phases(): PhasesView {
    const { phases, failure } = this.observer;
    const facts = { started: phases.started, now: this.now(), phases: phases.list() };
    return failure ? { ...facts, failure } : facts;
  }

  /** As it is now, or as it was after record `at` of a journal. */
  private actor(address: string, at: number): ActorDetail | undefined {
    const actor = this.observer.view(address);
    if (!actor) return undefined;
    const past = at < 0 ? undefined : this.options.recorded?.kernelAt(at);
    const kernel = past ?? this.kernel;
    const snapshot = kernel?.snapshotOf(address) as { context?: unknown } | undefined;
    const context = snapshot && shortText(JSON.stringify(snapshot.context, null, 2) ?? '', CONTEXT_MAX_CHARS);
    const timers = (kernel?.timers.list() ?? []).filter((timer) => timer.target === address);
    return {
      actor,
      ...(past ? { at } : {}),
      ...(context === undefined ? {} : { context }),
      timers: timers.map(({ due, event }) => ({ due, event: event.type })),
      records: this.observer.history.recordsOf(address, ACTOR_RECORDS),
    };
  }

  // ---- live ---------------------------------------------------------------------------------------------------------

  /** Opens the stream of turns after `Last-Event-ID`, else after `?after=`, else from now on. */
  private follow(request: FastifyRequest<Asked>, reply: FastifyReply): void {
    if (this.stream.size >= CLIENTS_MAX) {
      void reply.code(503).send({ error: `${CLIENTS_MAX} pages are open already: close one` });
      return;
    }
    const last = request.headers['last-event-id'] ?? request.query['after'];
    const after = wholeNumber(last, this.observer.n);
    const known = after <= this.observer.n ? this.observer.history.turnsAfter(after) : undefined;
    const hello: HelloMessage = {
      incarnation: this.observer.incarnation,
      resumed: known !== undefined,
      now: this.now(),
    };
    reply.hijack();
    reply.raw.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream; charset=utf-8' });
    this.stream.open(
      reply.raw,
      hello,
      (known ?? []).map((turn) => this.message(turn)),
    );
  }

  /** The actors of a turn of the past are told as they are now: a page shows the present. */
  private message({ n, turn, t, records, touched, gone }: SeenTurn): TurnMessage {
    const actors = [...touched].flatMap((address) => this.observer.view(address) ?? []);
    return { n, turn, t, records: records.map(shownTrimmed), actors, gone };
  }
}

interface Named {
  Params: { name: string };
}
/** A parameter that is given twice comes as a list. */
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

function wholeNumber(value: string | string[] | undefined, otherwise: number): number {
  const text = only(value);
  return text !== undefined && /^-?\d{1,15}$/.test(text) ? Number(text) : otherwise;
}
