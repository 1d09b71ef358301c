/**
 * Connects the runtime to the streams of a running container: a socket in the container's folder, served by its shim.
 *
 * A message is a byte that names the channel, the length of its data, and the data. Invariants: clients receive output
 * from the moment they attach; a client that reads too slowly is disconnected, because a container never waits for a
 * client; input of several clients reaches the container in order of arrival.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Writable } from 'node:stream';
import type { TerminalSize } from './terminal.ts';

/** Name of the socket in the container's folder. */
const SOCKET = 'attach.sock';
const HEAD_BYTES = 5;
const SIZE_BYTES = 4;
/** Largest message: twice the largest of a client; output has the sizes of pipe reads. */
const MESSAGE_MAX_BYTES = 8 * 1024 * 1024;
/** Output buffered for one slow client. */
const UNSENT_MAX_BYTES = 1024 * 1024;
/** Clients at once: the users who watch one container. */
const CLIENTS_MAX = 64;
/** How long the last output may take to reach the clients after the container has ended. */
const LINGER_MS = 2_000;

/** `end`: the container has ended, and all of its output was sent. */
const CHANNELS = ['stdin', 'stdout', 'stderr', 'resize', 'end'] as const;
type Channel = (typeof CHANNELS)[number];

function message(channel: Channel, data: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(CHANNELS.indexOf(channel), 0);
  head.writeUInt32BE(data.length, 1);
  return Buffer.concat([head, data]);
}

/** Reports each message of a connection; an invalid message ends the connection. */
function listen(socket: Socket, onMessage: (channel: Channel, data: Buffer) => void): void {
  let buffered = Buffer.alloc(0);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    buffered = buffered.length === 0 ? Buffer.from(chunk) : Buffer.concat([buffered, chunk]);
    for (let next = messageOf(buffered); next !== 'none'; next = messageOf(buffered)) {
      if (next === 'broken') {
        socket.destroy();
        return;
      }
      buffered = next.rest;
      onMessage(next.channel, next.data);
    }
  });
}

interface Message {
  readonly channel: Channel;
  readonly data: Buffer;
  readonly rest: Buffer<ArrayBuffer>;
}

function messageOf(bytes: Buffer<ArrayBuffer>): Message | 'none' | 'broken' {
  if (bytes.length < HEAD_BYTES) return 'none';
  const [channel, end] = [CHANNELS[bytes.readUInt8(0)], HEAD_BYTES + bytes.readUInt32BE(1)];
  if (!channel || end > MESSAGE_MAX_BYTES) return 'broken';
  if (bytes.length < end) return 'none';
  return { channel, data: bytes.subarray(HEAD_BYTES, end), rest: bytes.subarray(end) };
}

export interface Attachable {
  readonly stdin: Writable | null;
  /** The container's input closes when the first client has closed its own. */
  readonly stdinOnce: boolean;
  readonly resize: (size: TerminalSize) => void;
}

export class AttachServer {
  private readonly server: Server;
  private readonly clients = new Set<Socket>();

  /** @param directory the container's; a path too long for a socket is allowed */
  constructor(directory: string, container: Attachable) {
    this.server = createServer((socket) => this.addClient(socket, container));
    this.server.maxConnections = CLIENTS_MAX;
    // A container runs without the socket as well; an attach then fails with that reason.
    this.server.on('error', () => {});
    const before = process.cwd();
    process.chdir(directory);
    this.server.listen(SOCKET);
    process.chdir(before);
    this.server.unref();
  }

  output(channel: 'stdout' | 'stderr', data: Buffer): void {
    for (const client of this.clients) {
      if (client.writableLength > UNSENT_MAX_BYTES) client.destroy();
      else client.write(message(channel, data));
    }
  }

  /** Resolves when the clients have read the last output, or after a timeout. */
  async close(): Promise<void> {
    const clients = [...this.clients];
    const closed = clients.map((client) => new Promise((resolve) => client.once('close', resolve)));
    for (const client of clients) client.end(message('end', Buffer.alloc(0)));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, LINGER_MS)));
    await Promise.race([Promise.all(closed), late]);
    clearTimeout(timer);
  }

  private addClient(socket: Socket, { stdin, stdinOnce, resize }: Attachable): void {
    this.clients.add(socket);
    socket.once('close', () => this.clients.delete(socket));
    listen(socket, (channel, data) => {
      if (channel === 'resize' && data.length === SIZE_BYTES)
        resize({ columns: data.readUInt16BE(0), rows: data.readUInt16BE(2) });
      if (channel !== 'stdin' || !stdin?.writable) return;
      if (data.length === 0) {
        if (stdinOnce) stdin.end();
      } else if (!stdin.write(data)) {
        socket.pause();
        stdin.once('drain', () => socket.resume());
      }
    });
  }
}

export interface Attachment {
  readonly socket: Socket;
  /** False if the container accepts no more for now: wait for `drain` of the socket. */
  input(data: Buffer): boolean;
  endInput(): void;
  readonly resize: (size: TerminalSize) => void;
}

export interface AttachListener {
  output(channel: 'stdout' | 'stderr', data: Buffer): void;
  /** The container has ended; if the socket closes without this call, the client was disconnected. */
  ended(): void;
}

/** Rejects if the container has no listening shim. */
export async function attachTo(directory: string, listener: AttachListener): Promise<Attachment> {
  // The path through the descriptor is short, however long the folder's own path is.
  const fd = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  const socket = connect(`/proc/self/fd/${fd}/${SOCKET}`);
  try {
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  } finally {
    closeSync(fd);
  }
  listen(socket, (channel, data) => {
    if (channel === 'stdout' || channel === 'stderr') listener.output(channel, data);
    if (channel === 'end') listener.ended();
  });
  return {
    socket,
    input: (data) => socket.write(message('stdin', data)),
    endInput: () => void socket.write(message('stdin', Buffer.alloc(0))),
    resize: ({ columns, rows }) => {
      const size = Buffer.alloc(SIZE_BYTES);
      size.writeUInt16BE(columns, 0);
      size.writeUInt16BE(rows, 2);
      socket.write(message('resize', size));
    },
  };
}
