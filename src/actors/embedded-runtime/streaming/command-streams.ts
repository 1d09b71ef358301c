/**
 * The streams of one command between a client and a process, for all protocols of clients: of a new process, or of one
 * that a container already runs.
 *
 * Decides: the streams of `v4.channel.k8s.io` are distinguished over SPDY by the header `streamtype`, over WebSocket by
 * the first byte of a message. Invariant: the status is sent last, and once.
 */
import { type Duplex, PassThrough, type Readable, Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import { SpdyServer, type SpdyServerStream } from '../../spdy/server.ts';
import { wrongState } from '../errors.ts';
import { type Attachment, attachTo } from '../process/attach-socket.ts';
import type { TerminalSize } from '../process/terminal.ts';
import { stateOf } from '../status.ts';
import type { Container } from '../store/store.ts';

/** The streams that a client requested. */
export interface StreamsAsked {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

export interface CommandStreams {
  readonly stdin: Readable | null;
  readonly stdout: Writable | null;
  readonly stderr: Writable | null;
  /** The sizes of the client's terminal. */
  readonly sizes: Sizes;
  /** Sends the status after all output, and closes the connection. */
  end(status: object): void;
  /** Aborted when the client disconnects. */
  readonly gone: AbortSignal;
}

/** The size of a terminal, which may be known before the terminal exists. */
class Sizes {
  private last: TerminalSize | undefined;
  private listener: ((size: TerminalSize) => void) | undefined;

  change(size: TerminalSize): void {
    this.last = size;
    this.listener?.(size);
  }

  /** Receives the current size at once, and each later one. */
  follow(listener: (size: TerminalSize) => void): void {
    this.listener = listener;
    if (this.last) listener(this.last);
  }
}

export const COMMAND_PROTOCOL = 'v4.channel.k8s.io';

/** Upstream's limit for an upgraded client to open its streams. */
const OPENING_LIMIT_MS = 30_000;
/** The limit of a message with a size, which has a few digits. */
const SIZE_MAX_BYTES = 1_024;
const CHANNELS = ['stdin', 'stdout', 'stderr', 'error', 'resize'] as const;

/**
 * Resolves when the client has opened its streams. Rejects, and closes the connection, if the client disconnected or
 * took too long.
 */
export function spdyStreams(socket: Duplex, head: Buffer, asked: StreamsAsked): Promise<CommandStreams> {
  const missing = new Set<string>(['error']);
  for (const name of ['stdin', 'stdout', 'stderr'] as const) if (asked[name]) missing.add(name);
  if (asked.tty) missing.add('resize');
  const found = new Map<string, SpdyServerStream>();
  let isComplete = false;
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => socket.destroy(), OPENING_LIMIT_MS);
    const session = new SpdyServer(socket, head, (stream) => {
      const type = stream.headers['streamtype'] ?? '';
      if (missing.delete(type)) found.set(type, stream);
      else stream.destroy();
      if (missing.size === 0 && !isComplete) {
        isComplete = true;
        clearTimeout(late);
        resolve(overSpdy(session, found));
      }
    });
    session.gone.addEventListener('abort', () => {
      clearTimeout(late);
      reject(new Error('the client went away before it opened its streams'));
    });
  });
}

function overSpdy(session: SpdyServer, found: ReadonlyMap<string, SpdyServerStream>): CommandStreams {
  const streams: CommandStreams = {
    stdin: found.get('stdin') ?? null,
    stdout: found.get('stdout') ?? null,
    stderr: found.get('stderr') ?? null,
    sizes: new Sizes(),
    end: (status) =>
      void outputEnded(streams).then(() => found.get('error')?.end(JSON.stringify(status), () => session.close())),
    gone: session.gone,
  };
  for (const name of ['stdout', 'stderr', 'error']) found.get(name)?.resume();
  found.get('resize')?.on('data', (chunk: Buffer) => resized(chunk, streams));
  return streams;
}

/** A connection after its handshake. */
export function webSocketStreams(client: WebSocket, asked: StreamsAsked): CommandStreams {
  const gone = new AbortController();
  const stdin = asked.stdin ? new PassThrough() : null;
  const send = (channel: (typeof CHANNELS)[number], chunk: Buffer, done?: (error?: Error) => void) =>
    client.send(Buffer.concat([Buffer.from([CHANNELS.indexOf(channel)]), chunk]), done);
  const output = (name: 'stdout' | 'stderr') =>
    new Writable({ write: (chunk: Buffer, _encoding, done) => send(name, chunk, done) }).on('error', () => {});
  const streams: CommandStreams = {
    stdin,
    stdout: asked.stdout ? output('stdout') : null,
    stderr: asked.stderr ? output('stderr') : null,
    sizes: new Sizes(),
    end: (status) =>
      void outputEnded(streams).then(() =>
        send('error', Buffer.from(JSON.stringify(status)), () => client.close(1000)),
      ),
    gone: gone.signal,
  };
  client.on('message', (data: Buffer) => {
    const [channel, payload] = [CHANNELS[data[0] ?? -1], data.subarray(1)];
    if (channel === 'resize') resized(payload, streams);
    if (channel !== 'stdin' || !stdin || stdin.write(payload)) return;
    client.pause();
    stdin.once('drain', () => client.resume());
  });
  client.on('error', () => client.terminate());
  client.once('close', () => {
    stdin?.destroy();
    gone.abort();
  });
  // As upstream: an empty first frame tells the client that the streams are open.
  send('stdout', Buffer.alloc(0));
  return streams;
}

async function outputEnded({ stdout, stderr }: CommandStreams): Promise<void> {
  // A destroyed stream ends too: its callback gets the error.
  const streams = [stdout, stderr].filter((stream) => stream !== null);
  await Promise.all(streams.map((stream) => new Promise<void>((ended) => stream.end(() => ended()))));
}

/** A size as `{"Width": 80, "Height": 24}`; other messages are ignored, as upstream. */
function resized(chunk: Buffer, streams: CommandStreams): void {
  if (chunk.length > SIZE_MAX_BYTES) return;
  for (const line of chunk.toString('latin1').split('\n')) {
    const size = sizeOf(line);
    if (size) streams.sizes.change(size);
  }
}

function sizeOf(line: string): TerminalSize | null {
  try {
    const { Width: columns, Height: rows }: { Width?: unknown; Height?: unknown } = JSON.parse(line);
    return isCount(columns) && isCount(rows) ? { columns, rows } : null;
  } catch {
    return null;
  }
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) > 0 && Number(value) < 65_536;

/** @throws CriError if no process runs */
export function checkAttach(container: Container): void {
  if (!container.running)
    throw wrongState(`failed to attach to container: container is in ${stateOf(container)} state`);
}

/**
 * Connects a client to the streams of a container's own process, until one of them ends. As in containerd, a client
 * whose input has ended is detached, unless the container's input ends with it.
 *
 * Resolves at the end of the attachment. Rejects if the container is unreachable, and for a client that was
 * disconnected.
 */
export async function attachStreams(container: Container, streams: CommandStreams): Promise<void> {
  checkAttach(container);
  let isWhole = false;
  const attachment = await attachTo(container.directory, {
    output: (channel, data) => {
      const to = streams[channel];
      if (!to || to.write(data)) return;
      attachment.socket.pause();
      to.once('drain', () => attachment.socket.resume());
    },
    ended: () => {
      isWhole = true;
    },
  });
  const over = new Promise<void>((resolve) => {
    const leave = () => {
      isWhole = true;
      resolve();
    };
    attachment.socket.once('close', () => resolve());
    streams.gone.addEventListener('abort', leave);
    streams.sizes.follow(attachment.resize);
    forwardInput(streams, attachment, container.record.terminal?.stdinOnce === true ? () => {} : leave);
  });
  await over;
  attachment.socket.destroy();
  if (!isWhole) throw wrongState('the container wrote faster than its output was read');
}

function forwardInput({ stdin }: CommandStreams, attachment: Attachment, left: () => void): void {
  stdin?.on('data', (data: Buffer) => {
    if (attachment.input(data)) return;
    stdin.pause();
    attachment.socket.once('drain', () => stdin.resume());
  });
  stdin?.once('end', () => {
    attachment.endInput();
    left();
  });
}

/** The status of a command or an attachment for its client: a `metav1.Status` with upstream's texts. */
export const SUCCESS = { metadata: {}, status: 'Success' };

/** @param command as given by its client */
export const exitStatus = (command: readonly string[], code: number): object =>
  code === 0
    ? SUCCESS
    : {
        metadata: {},
        status: 'Failure',
        message: `command terminated with non-zero exit code: error executing command [${command.join(' ')}], exit code ${code}`,
        reason: 'NonZeroExitCode',
        details: { causes: [{ reason: 'ExitCode', message: String(code) }] },
      };

/** The status of a command that could not run, or of a failed attach. */
export const failureStatus = (why: string): object => ({
  metadata: {},
  status: 'Failure',
  message: `Internal error occurred: ${why}`,
  reason: 'InternalError',
  details: { causes: [{ message: why }] },
  code: 500,
});
