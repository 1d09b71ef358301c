/**
 * `statelet exec POD -- COMMAND`: runs a command in a container, optionally with a terminal, and returns its exit code.
 */
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { bytesOf } from '../../actors/byte-stream.ts';
import { containerOf, LocalError, type LocalOptions, podNamed, socketPath } from '../local/node-client.ts';

export interface ExecOptions extends LocalOptions {
  readonly container?: string;
  readonly stdin?: boolean;
  readonly tty?: boolean;
}

const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;
const END_OF_STDIN = Buffer.from([255, 0]);
/** The exit code of a command that could not run at all, as kubectl's. */
const COULD_NOT_RUN = 1;

interface Status {
  readonly status?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

/** Resolves with the command's exit code. @throws LocalError */
export async function execCommand(pod: string, command: readonly string[], options: ExecOptions): Promise<number> {
  if (command.length === 0) throw new LocalError('you must specify at least one command for the container');
  const client = await connect(pod, command, options);
  // The first frames may arrive together with the handshake: a later listener would miss them.
  const ended = statusOf(client);
  await opened(client);
  if (options.stdin) sendStdin(client, options.tty ?? false);
  const status = await ended.finally(() => {
    if (options.tty && process.stdin.isTTY) process.stdin.setRawMode(false);
    process.stdin.destroy();
  });
  if (status.status === 'Success') return 0;
  const code = status.details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message;
  process.stderr.write(
    `${code === undefined ? `error: ${status.message}` : `command terminated with exit code ${code}`}\n`,
  );
  return code === undefined ? COULD_NOT_RUN : Number(code);
}

async function connect(pod: string, command: readonly string[], options: ExecOptions): Promise<WebSocket> {
  const socket = await socketPath(options);
  const found = await podNamed(socket, options.namespace, pod);
  const { metadata } = found;
  const container = containerOf(found, options.container);
  const query = new URLSearchParams(command.map((word) => ['command', word]));
  const switches = { input: options.stdin, output: true, error: !options.tty, tty: options.tty };
  for (const [name, isAsked] of Object.entries(switches)) if (isAsked) query.set(name, '1');
  const path = ['exec', metadata.namespace, metadata.name, container].map(encodeURIComponent).join('/');
  return new WebSocket(`ws+unix://${socket}:/${path}?${query.toString()}`, ['v5.channel.k8s.io']);
}

/** Resolves when the streams of the command are open. @throws LocalError with the node's error */
async function opened(client: WebSocket): Promise<void> {
  const refused = once(client, 'unexpected-response').then(async ([, response]) => {
    throw new LocalError((await bytesOf(response)).toString().trim());
  });
  refused.catch(() => {});
  await Promise.race([once(client, 'open'), refused]);
}

/** Prints the output until the status arrives. */
async function statusOf(client: WebSocket): Promise<Status> {
  let status: Status = { status: 'Failure', message: 'the connection ended before the command did' };
  client.on('message', (data: Buffer) => {
    const payload = data.subarray(1);
    if (data[0] === CHANNEL.stdout) process.stdout.write(payload);
    if (data[0] === CHANNEL.stderr) process.stderr.write(payload);
    if (data[0] === CHANNEL.status) status = JSON.parse(payload.toString());
  });
  await once(client, 'close').catch(() => {});
  return status;
}

function sendStdin(client: WebSocket, isTerminal: boolean): void {
  const { stdin, stdout } = process;
  const send = (channel: number, data: Buffer) => client.send(Buffer.concat([Buffer.from([channel]), data]));
  if (isTerminal && stdin.isTTY) {
    stdin.setRawMode(true);
    const resize = () =>
      send(CHANNEL.resize, Buffer.from(JSON.stringify({ Width: stdout.columns, Height: stdout.rows })));
    resize();
    stdout.on('resize', resize);
  }
  stdin.on('data', (data: Buffer) => send(CHANNEL.stdin, data));
  stdin.on('end', () => client.send(END_OF_STDIN));
}
