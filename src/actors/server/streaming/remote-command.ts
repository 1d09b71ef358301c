/**
 * exec and attach for `v5.channel.k8s.io`: WebSocket towards the client, SPDY towards the runtime. Also the requests
 * for streams.
 *
 * Owns: one WebSocket and one SPDY connection. A message is a byte that names the channel, and its data.
 * Invariants:
 *   V1 the last message before the close is the status of the command, on channel 3, once.
 *   V2 back-pressure works in both directions: a side that does not read stops the other from sending.
 *   V3 when one side disconnects, the other is closed.
 * Upstream: StreamTranslatorHandler. Checked against the recordings ws-exec, ws-exec-stdin, ws-attach.
 */
import type { IncomingMessage } from 'node:http';
import { type Duplex, Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import { isObject, memberOf } from '../../../kernel/json.ts';
import { SpdyClient, type SpdyStream } from '../../spdy/client.ts';
import { type Answer, type ApiRequest, refusal, text } from '../http/endpoint.ts';
import { parsePorts, TUNNEL_PROTOCOL } from './tunnel.ts';

export interface StreamOptions {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

interface Options extends StreamOptions {
  /** The command attaches to an existing process, which may continue after the client's input has ended. */
  readonly attaches: boolean;
}

const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
/** Bytes buffered for a client that does not read before the runtime is stopped. */
const CLIENT_BUFFER_BYTES = 256 * 1024;
/** The status of a command whose end was not reported: it may have succeeded or failed. */
const UNKNOWN_STATUS = 'the runtime closed the connection before it said how the command ended';
/**
 * Delay before the end of an attached client's input is forwarded. The runtime then stops sending the process's output;
 * and if it receives the end while it is still attaching, containerd never ends the stream.
 */
const ATTACH_LINGER_MS = 100;
/** Largest status accepted from a runtime. */
const STATUS_MAX_BYTES = 64 * 1024;

/** The status of a command in version 5, from the runtime's in version 4, in which every field may be anything. */
function clientStatus(received: string): object {
  const { status, reason, message, details } = fieldsOf(received);
  if (status === 'Success') return { metadata: {}, status: 'Success' };
  const causes = memberOf(details, 'causes');
  const exit = Array.isArray(causes) ? causes.find((cause) => memberOf(cause, 'reason') === 'ExitCode') : undefined;
  const code = memberOf(exit, 'message');
  if (reason === 'NonZeroExitCode' && typeof code === 'string') {
    return {
      metadata: {},
      status: 'Failure',
      message: `command terminated with non-zero exit code: command terminated with exit code ${code}`,
      reason: 'NonZeroExitCode',
      details: { causes: [{ reason: 'ExitCode', message: code }] },
    };
  }
  return internalError(typeof message === 'string' ? message : received);
}

/** None if it is no object of JSON. */
function fieldsOf(received: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(received);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

const internalError = (message: string): object => ({
  metadata: {},
  status: 'Failure',
  message: `Internal error occurred: ${message}`,
  reason: 'InternalError',
  details: { causes: [{ message }] },
  code: 500,
});

/** Runs until the command ended or either side disconnected. */
export class RemoteCommand {
  private readonly client: WebSocket;
  private readonly runtime: SpdyClient;
  private readonly stdin: SpdyStream | null;
  private readonly resize: SpdyStream | null;
  private readonly attaches: boolean;
  private readonly received: Buffer[] = [];
  private receivedBytes = 0;
  /** Streams that the runtime has not ended: output precedes the status. */
  private open = new Set<number>();
  private hasStatus = false;

  constructor(client: WebSocket, runtime: { socket: Duplex; head: Buffer }, options: Options) {
    this.client = client;
    this.attaches = options.attaches;
    this.runtime = new SpdyClient(runtime.socket, runtime.head);
    this.write(CHANNEL.stdout, Buffer.alloc(0));
    this.runtime.open({ streamType: 'error' }, { data: (chunk) => this.collect(chunk), end: () => this.statusEnded() });
    this.stdin = options.stdin ? this.runtime.open({ streamType: 'stdin' }, {}) : null;
    if (options.stdout) this.output('stdout');
    if (options.stderr && !options.tty) this.output('stderr');
    this.resize = options.tty ? this.runtime.open({ streamType: 'resize' }, {}) : null;
    this.runtime.onDrain = () => client.resume();
    this.runtime.onClose = () => this.finish();
    client.on('message', (data: Buffer) => this.handleMessage(data));
    client.on('close', () => this.runtime.close());
    client.on('error', () => client.terminate());
  }

  private output(name: 'stdout' | 'stderr'): void {
    const stream = this.runtime.open(
      { streamType: name },
      {
        data: (chunk) => this.write(CHANNEL[name], chunk),
        end: () => {
          this.open.delete(stream.id);
          this.finishWhenDone();
        },
      },
    );
    this.open.add(stream.id);
  }

  private handleMessage(data: Buffer): void {
    const [channel, ...rest] = [data[0], data.subarray(1)];
    const payload = rest[0] ?? Buffer.alloc(0);
    if (channel === CHANNEL.close && payload[0] === CHANNEL.stdin) this.endInput();
    const stream = channel === CHANNEL.stdin ? this.stdin : channel === CHANNEL.resize ? this.resize : null;
    if (stream && payload.length > 0 && !stream.write(payload)) this.client.pause();
  }

  private endInput(): void {
    if (this.attaches) setTimeout(() => this.stdin?.end(), ATTACH_LINGER_MS).unref();
    else this.stdin?.end();
  }

  private write(channel: number, chunk: Buffer): void {
    if (this.client.readyState !== this.client.OPEN) return;
    this.client.send(Buffer.concat([Buffer.from([channel]), chunk]), () => {
      if (this.client.bufferedAmount < CLIENT_BUFFER_BYTES) this.runtime.resume();
    });
    if (this.client.bufferedAmount >= CLIENT_BUFFER_BYTES) this.runtime.pause();
  }

  private collect(chunk: Buffer): void {
    this.receivedBytes += chunk.length;
    if (this.receivedBytes <= STATUS_MAX_BYTES) this.received.push(Buffer.from(chunk));
  }

  private statusEnded(): void {
    this.hasStatus = true;
    this.finishWhenDone();
  }

  private finishWhenDone(): void {
    if (this.hasStatus && this.open.size === 0) this.finish();
  }

  private finish(): void {
    if (this.client.readyState === this.client.OPEN) {
      const received = Buffer.concat(this.received).toString();
      const status = received === '' ? internalError(UNKNOWN_STATUS) : clientStatus(received);
      this.write(CHANNEL.error, Buffer.from(JSON.stringify(status)));
      this.client.close(1000);
    }
    this.runtime.close();
  }
}

/** What a client of a stream asks for, as in the path of its request. */
export type Kind = 'exec' | 'attach' | 'portForward';

export const COMMAND_PROTOCOL = 'v5.channel.k8s.io';

const isSet = ({ query }: ApiRequest, name: string): boolean => query.get(name)?.[0] === '1';
export function hasStream(request: ApiRequest): boolean {
  const { stdin, stdout, stderr } = optionsOf(request);
  return stdin || stdout || stderr;
}

export function optionsOf(request: ApiRequest): StreamOptions {
  const tty = isSet(request, 'tty');
  return {
    stdin: isSet(request, 'input'),
    stdout: isSet(request, 'output'),
    stderr: isSet(request, 'error') && !tty,
    tty,
  };
}

/** The ports in the query, used by WebSockets without a tunnel, or why they are invalid. */
export function portsOf({ raw, query }: ApiRequest): readonly number[] | string {
  const isReported = isWebSocket(raw) && wantsUpgrade(raw) && !protocolsOf(raw).includes(TUNNEL_PROTOCOL);
  return isReported ? parsePorts(query.get('port') ?? []) : [];
}

/** Whether the client requests an upgrade; as upstream, only `Connection` is read. */
export const wantsUpgrade = ({ headers }: IncomingMessage): boolean => /\bupgrade\b/i.test(headers.connection ?? '');
const isWebSocket = ({ headers }: IncomingMessage): boolean => headers.upgrade?.toLowerCase() === 'websocket';

export const protocolsOf = (raw: IncomingMessage): readonly string[] =>
  isWebSocket(raw) ? (raw.headers['sec-websocket-protocol'] ?? '').split(',').map((protocol) => protocol.trim()) : [];

/** The error of a handshake that this node handles itself, with the texts of upstream's libraries. */
export function handshakeRefusal(kind: Kind, offered: readonly string[], request: ApiRequest): Answer | null {
  const { raw, method } = request;
  if (!isWebSocket(raw)) return null;
  if (kind === 'portForward') {
    if (!offered.includes(TUNNEL_PROTOCOL) || isWellFormed(raw)) return null;
    return withVersion(refusal(400, 'Bad Request'));
  }
  if (!offered.includes(COMMAND_PROTOCOL)) return null;
  if (method !== 'GET') return text(405, 'bad method');
  if (raw.headers['sec-websocket-key'] === undefined) return untyped('mismatch challenge/response');
  if (raw.headers['sec-websocket-version'] !== '13') {
    return withVersion(untyped('missing or bad WebSocket Version'));
  }
  return isWellFormed(raw) ? null : untyped('mismatch challenge/response');
}

/** A response without a content type, because upstream's WebSocket library writes it and bypasses the HTTP server. */
const untyped = (body: string): Answer => ({
  status: 400,
  headers: { 'content-length': String(body.length) },
  body: Readable.from([Buffer.from(body)]),
});

/** Announces the supported version of the protocol (RFC 6455 4.4). */
const withVersion = (answer: Answer): Answer => ({
  ...answer,
  headers: { ...answer.headers, 'sec-websocket-version': '13' },
});

/** The handshake of RFC 6455: version 13 and a key of 16 bytes. */
const isWellFormed = ({ headers }: IncomingMessage): boolean =>
  headers['sec-websocket-version'] === '13' && /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '');
