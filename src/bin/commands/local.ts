/**
 * The verbs that ask the daemon of this machine.
 *
 * `statelet get pods`: the pods of this node as it sees them, in kubectl's columns. `statelet describe pod NAME`:
 * everything about one pod, with the events that its journal has. `statelet logs POD`: the output of a container, as
 * `kubectl logs` prints it. `statelet exec POD -- COMMAND`: runs a command in a container, optionally with a terminal,
 * and returns its exit code.
 */
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { WebSocket } from 'ws';
import { stringify } from 'yaml';
import { bytesOf } from '../../actors/byte-stream.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import { readJournal } from '../../kernel/journal/reader.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { parseDuration } from '../../machines/model/values/time.ts';
import { describePod, type PodEvent } from '../local/describe-pod.ts';
import {
  ask,
  askedFor,
  containerOf,
  LocalError,
  type LocalOptions,
  type LocalPod,
  podNamed,
  pods,
  socketPath,
} from '../local/node-client.ts';
import { columns, podRows } from '../local/pod-table.ts';
import { printable } from '../printable.ts';

export interface GetOptions extends LocalOptions {
  readonly output?: string;
  readonly allNamespaces?: boolean;
}

const FORMS: readonly string[] = ['wide', 'json', 'yaml', 'name'];

/** @throws LocalError */
export async function getCommand(resource: string, given: string | undefined, options: GetOptions): Promise<string> {
  const name = askedFor(resource, given);
  if (options.output !== undefined && !FORMS.includes(options.output)) {
    const forms = FORMS.join(', ');
    throw new LocalError(`error: there is no output format ${JSON.stringify(options.output)}; there are ${forms}`);
  }
  const socket = await socketPath(options);
  const namespace = options.allNamespaces ? '' : options.namespace;
  const found = name === undefined ? await pods(socket, namespace) : [await podNamed(socket, namespace, name)];
  const { output } = options;
  if (output === 'json' || output === 'yaml') return document(found, name, output);
  if (output === 'name') return found.map(({ metadata }) => `pod/${metadata.name}\n`).join('');
  if (found.length === 0) {
    process.stderr.write(`No resources found${namespace === '' ? '' : ` in ${namespace} namespace`}.\n`);
    return '';
  }
  const rows = podRows(found, {
    wide: output === 'wide',
    allNamespaces: options.allNamespaces ?? false,
    nowMs: Date.now(),
  });
  return printable(columns(rows));
}

function document(found: readonly LocalPod[], name: string | undefined, form: 'json' | 'yaml'): string {
  const items = found.map((pod) => ({ apiVersion: 'v1', kind: 'Pod', ...pod }));
  const value = name === undefined ? { apiVersion: 'v1', items, kind: 'List', metadata: {} } : items[0];
  return form === 'json' ? `${JSON.stringify(value, null, 4)}\n` : stringify(value);
}

/** @throws LocalError */
export async function describeCommand(
  resource: string,
  given: string | undefined,
  options: LocalOptions,
): Promise<string> {
  const name = askedFor(resource, given);
  const socket = await socketPath(options);
  const { namespace } = options;
  const found = name === undefined ? await pods(socket, namespace) : [await podNamed(socket, namespace, name)];
  const journal = join(dirname(socket), 'journal');
  const texts = found.map((pod) =>
    describePod(pod, eventsOf(journal, `${pod.metadata.namespace}/${pod.metadata.name}`), Date.now()),
  );
  return printable(texts.join('\n\n'));
}

/**
 * The events of an object since the start of the daemon, equal texts once; none if the journal is in another folder.
 */
function eventsOf(journal: string, object: string): PodEvent[] {
  const events = new Map<string, PodEvent>();
  for (const { record, atMs } of recordsOf(journal)) {
    if (record.k !== 'log' || record.text !== 'Event occurred' || record.fields?.['object'] !== object) continue;
    const { type, reason, message } = record.fields as Record<'type' | 'reason' | 'message', string>;
    const key = `${reason}\n${message}`;
    const at = new Date(atMs).toISOString();
    events.set(key, { type, reason, message, at, count: (events.get(key)?.count ?? 0) + 1 });
  }
  return [...events.values()];
}

type Timed = { readonly record: JournalRecord; readonly atMs: number };

function recordsOf(journal: string): Timed[] {
  try {
    let atMs = 0;
    return Array.from(readJournal(journal).records, (record) => {
      if ('t' in record && typeof record.t === 'number') atMs = record.t;
      return { record, atMs };
    });
  } catch (thrown) {
    if (thrown instanceof JournalError) return [];
    throw thrown;
  }
}

interface ContainerOptions extends LocalOptions {
  readonly container?: string;
}

/** The socket of the daemon, and the path of an endpoint of a container. @throws LocalError */
async function containerAt(endpoint: string, pod: string, options: ContainerOptions) {
  const socket = await socketPath(options);
  const found = await podNamed(socket, options.namespace, pod);
  const { namespace, name } = found.metadata;
  const steps = [endpoint, namespace, name, containerOf(found, options.container)];
  return { socket, path: `/${steps.map(encodeURIComponent).join('/')}` };
}

export interface LogsOptions extends ContainerOptions {
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly timestamps?: boolean;
  readonly tail?: string;
  /** As Go writes durations: `90s`, `1h30m`. */
  readonly since?: string;
  /** RFC 3339. */
  readonly sinceTime?: string;
  readonly limitBytes?: string;
}

const NANOSECONDS = 1_000_000_000n;

/** Whole seconds, rounded up. */
function seconds(since: string): string {
  const parsed = parseDuration(since);
  if (parsed.error === undefined) return String((parsed.value + NANOSECONDS - 1n) / NANOSECONDS);
  throw new LocalError(`error: --since is a duration such as 90s or 1h30m: ${parsed.error}`);
}

/** A whole number, or kubectl's error. */
function integer(flag: string, text: string): string {
  if (/^[+-]?\d+$/.test(text)) return text;
  const why = `strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`;
  throw new LocalError(`error: invalid argument ${JSON.stringify(text)} for "--${flag}" flag: ${why}`);
}

/** As kubectl: a negative number means all lines. */
const tailOf = (lines: string | undefined): Record<string, string> =>
  lines === undefined || integer('tail', lines).startsWith('-') ? {} : { tailLines: lines };

/** Writes to `out` until the log ends. @throws LocalError */
export async function logsCommand(pod: string, options: LogsOptions, out: NodeJS.WritableStream): Promise<void> {
  const query = new URLSearchParams({
    ...(options.follow ? { follow: 'true' } : {}),
    ...(options.previous ? { previous: 'true' } : {}),
    ...(options.timestamps ? { timestamps: 'true' } : {}),
    ...tailOf(options.tail),
    ...(options.since === undefined ? {} : { sinceSeconds: seconds(options.since) }),
    ...(options.sinceTime === undefined ? {} : { sinceTime: options.sinceTime }),
    ...(options.limitBytes === undefined ? {} : { limitBytes: integer('limit-bytes', options.limitBytes) }),
  });
  const { socket, path } = await containerAt('containerLogs', pod, options);
  await pipeline(await ask(socket, `${path}?${query.toString()}`), out, { end: false });
}

export interface ExecOptions extends ContainerOptions {
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
  const { socket, path } = await containerAt('exec', pod, options);
  const query = new URLSearchParams(command.map((word) => ['command', word]));
  const switches = { input: options.stdin, output: true, error: !options.tty, tty: options.tty };
  for (const [name, isAsked] of Object.entries(switches)) if (isAsked) query.set(name, '1');
  return new WebSocket(`ws+unix://${socket}:${path}?${query.toString()}`, ['v5.channel.k8s.io']);
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
