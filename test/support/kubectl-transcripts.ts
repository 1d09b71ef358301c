/**
 * The recorded commands of kubectl: how they are run again, and which part of their output depends on the command, and
 * which on the moment, the machine or the image.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { constants, hostname, release } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import { untilNothingIsLost } from './kubectl-race.ts';
import { patient } from './patience.ts';
import { ownAddress } from './ports.ts';

const GOLDEN = join(import.meta.dirname, '../golden/http');
/** The only image of the corpus. */
const IMAGE = 'docker.io/library/busybox:latest';
/** The limit of one difference in a message. */
const SHOWN_MAX_CHARS = 2_000;
/** How much later than in the recording a command may print its output before it is interrupted. */
const LATE_MS = patient(60_000);
const POLL_EVERY_MS = 100;
/** A terminal's user types when the command is ready to read: it prints something first, at least a prompt. */
const TYPING_AFTER_MS = patient(1_500);
const SILENT_MAX_MS = patient(10_000);

type Asked = Pick<Transcript, 'argv' | 'env' | 'stdin' | 'tty' | 'ended'>;
type Output = Pick<Printed, 'stdout' | 'stderr'>;
type Text = string | { readonly bytes: number; readonly sha256?: string };

export interface Transcript {
  /** `exec-websocket#3`. */
  readonly id: string;
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: Text;
  /** Negative: ended by that signal. */
  readonly exitCode: number;
  readonly stdout: Text;
  readonly stderr: Text;
  /** Present: under script(1). */
  readonly tty?: string;
  /** Present: interrupted by the recorder. */
  readonly ended?: string;
}

export interface Printed {
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
}

/** An event of the corpus, without its times and count. */
export interface RecordedEvent {
  readonly id: string;
  readonly type: string;
  readonly reason: string;
  readonly object: string;
  readonly fieldPath: string | null;
  readonly source: { readonly component?: string; readonly host?: string };
  readonly reportingComponent: string;
  readonly reportingInstance: string;
  readonly message: string;
  /** The names of the objects. */
  readonly seenOn: readonly string[];
}

export function recordedEvents(): RecordedEvent[] {
  const text = readFileSync(join(GOLDEN, 'kubectl/events.json'), 'utf8');
  return (JSON.parse(text) as Omit<RecordedEvent, 'id'>[]).map((each, at) => ({ ...each, id: `events#${at}` }));
}

/** The commands of one file, in order. `as` runs the same commands with another protocol's name and environment. */
export function transcripts(file: string, as?: { name: string; env: Readonly<Record<string, string>> }): Transcript[] {
  const text = readFileSync(join(GOLDEN, 'kubectl', `${file}.json`), 'utf8');
  return (JSON.parse(text) as Omit<Transcript, 'id'>[]).map((each, at) => ({
    ...each,
    id: `${as?.name ?? file}#${at}`,
    ...(as && each.env ? { env: as.env } : {}),
  }));
}

export const protocol = (isWebSocket: boolean): Readonly<Record<string, string>> => ({
  KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(isWebSocket),
  KUBECTL_PORT_FORWARD_WEBSOCKETS: String(isWebSocket),
});

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: object;
}

/** The manifests of the corpus, with the image of the test's containerd. The first one of each name counts. */
export function fixtures(image: string): Manifest[] {
  const found = new Map<string, Manifest>();
  for (const file of ['pods.yaml', 'pods2.yaml', 'pods3.yaml']) {
    const text = readFileSync(join(GOLDEN, 'fixtures', file), 'utf8').replaceAll(IMAGE, image);
    // The pauses let the runtime order the lines of both streams; without them the order is random.
    const { items } = parse(
      text
        .replaceAll('i=1; while', 'sleep 0.5; i=1; while')
        .replaceAll('echo line $i; echo', 'echo line $i; sleep 0.15; echo'),
    ) as {
      items: Manifest[];
    };
    for (const item of items) {
      const key = `${item.kind}/${item.metadata.name}`;
      if (!found.has(key)) found.set(key, item);
    }
  }
  return [...found.values()];
}

export class Kubectl {
  private readonly own: readonly string[];
  readonly directory: string;
  private readonly image: string;

  /** @param directory the working directory, also for kubectl's cache */
  constructor(kubeconfig: string, directory: string, image: string) {
    this.own = [`--kubeconfig=${kubeconfig}`, `--cache-dir=${join(directory, 'cache')}`];
    this.directory = directory;
    this.image = image;
  }

  start({ argv, env = {}, tty }: Pick<Transcript, 'argv' | 'env' | 'tty'>): ChildProcess {
    const words = [...this.own, ...argv.map((word) => word.replaceAll(IMAGE, this.image))];
    const line = ['kubectl', ...words].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    const [file, args] = tty === undefined ? ['kubectl', words] : ['script', ['-qec', line, '/dev/null']];
    return spawn(file, args, { cwd: this.directory, env: { ...process.env, ...env } });
  }

  /** Runs a command to its end, or to the interrupt of the recorder. */
  run(asked: Asked | Transcript): Promise<Printed> {
    const mayRunTwice = ['exec', 'cp'].includes(asked.argv[0]!) && asked.tty === undefined;
    return mayRunTwice ? untilNothingIsLost(() => this.runOnce(asked)) : this.runOnce(asked);
  }

  private async runOnce(asked: Asked | Transcript): Promise<Printed> {
    const child = this.start(asked);
    const printed = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]!.on('data', (chunk: Buffer) => printed[name].push(chunk));
    }
    const exited = new Promise<number>((ended) =>
      child.once('close', (code, signal) => ended(code ?? -constants.signals[signal!])),
    );
    void this.type(child, asked);
    const output = () => ({ stdout: Buffer.concat(printed.stdout), stderr: Buffer.concat(printed.stderr) });
    void this.interrupt(child, asked, output);
    return { exitCode: await exited, ...output() };
  }

  /** Interrupts not earlier than the recorder did, and not before the command has printed what it printed there. */
  private async interrupt(child: ChildProcess, asked: Asked | Transcript, output: () => Output): Promise<void> {
    const seconds = /after (\d+)s/.exec(asked.ended ?? '')?.[1];
    if (seconds === undefined) return;
    await sleep(Number(seconds) * 1_000);
    const end = performance.now() + LATE_MS;
    const isSilent = () => 'stdout' in asked && outputDifferences(asked, output(), this).length > 0;
    while (child.exitCode === null && isSilent() && performance.now() < end) await sleep(POLL_EVERY_MS);
    child.kill('SIGINT');
  }

  private async type({ stdin, stdout }: ChildProcess, asked: Pick<Transcript, 'stdin' | 'tty'>): Promise<void> {
    stdin!.on('error', () => {});
    if (asked.tty !== undefined) {
      const printed = once(stdout!, 'data', { signal: AbortSignal.timeout(SILENT_MAX_MS) });
      await printed.catch(() => {});
      await sleep(TYPING_AFTER_MS);
    }
    stdin!.end(inputOf(asked.stdin));
  }

  /** Replaces the name of the image. */
  text(bytes: Buffer): string {
    return String(bytes).replaceAll(this.image, IMAGE);
  }
}

/** The corpus has no large inputs: they are all byte values in order, repeated. */
function inputOf(stdin: Text | undefined): string | Buffer {
  if (stdin === undefined || typeof stdin === 'string') return stdin ?? '';
  return Buffer.alloc(stdin.bytes, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
}

/**
 * kubectl's own races: its log line for a write after the end of the command, and for a first frame before it listened.
 */
const STDIN_NOISE =
  /^E\d{4} .* (v\d\.go:\d+\] "Unhandled Error" err=|websocket\.go:\d+\] Unknown stream id 1, ).*\r?\n/gm;

/** The differences, a sentence for each. */
export function differences(wanted: Transcript, got: Printed, kubectl: Kubectl): string[] {
  const found = wanted.exitCode === got.exitCode ? [] : [`exit code ${wanted.exitCode} but ${got.exitCode}`];
  return [...found, ...outputDifferences(wanted, got, kubectl)];
}

function outputDifferences(wanted: Transcript, got: Output, kubectl: Kubectl): string[] {
  const found: string[] = [];
  for (const name of ['stdout', 'stderr'] as const) {
    const [left, right] = [wanted[name], got[name]];
    const texts = (typeof left === 'string' ? [left, kubectl.text(right)] : []).map((text) => comparable(wanted, text));
    const isSame = typeof left === 'string' ? texts[0] === texts[1] : isLike(wanted, left, right);
    if (!isSame) found.push(`${name}: ${changes(texts[0] ?? JSON.stringify(left), texts[1] ?? kubectl.text(right))}`);
  }
  return found;
}

/** The recorder cut long texts that vary: any text is equal to them; bytes must be the same. */
const isLike = ({ argv }: Transcript, { sha256 }: Exclude<Text, string>, got: Buffer): boolean =>
  DESCRIBING.includes(argv[0]!) ? got.length > 0 : sha256 === checksum(got);

/** The lines that one of two texts has more often; both texts if only the order differs. */
function changes(wanted: string, got: string): string {
  const [left, right] = [wanted.split('\n'), got.split('\n')];
  const count = (lines: readonly string[], line: string) => lines.filter((each) => each === line).length;
  const more = (lines: readonly string[], others: readonly string[]) =>
    [...new Set(lines)].filter((line) => count(lines, line) > count(others, line));
  const [gone, come] = [more(left, right), more(right, left)];
  const isOrder = gone.length + come.length === 0;
  return JSON.stringify(isOrder ? { wanted, got } : { gone, come }).slice(0, SHOWN_MAX_CHARS);
}

const checksum = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** Commands that print the node's description of itself and its pods. */
const DESCRIBING = ['describe', 'get', 'top', 'wait', 'delete'];

function comparable({ argv, ended }: Transcript, text: string): string {
  const [verb = ''] = argv;
  let same = normalized(text).replace(STDIN_NOISE, '');
  if (verb === 'cp' && argv.at(-2)?.startsWith('lines:')) same = withoutTar(same);
  if (verb === 'port-forward') same = withoutPorts(same);
  if (argv.some((word) => word.includes('/proxy/metrics'))) same = same.replace(/ [\d.e+-]+$/gm, ' <n>');
  if (DESCRIBING.includes(verb) && !argv.includes('--raw')) same = withoutMoment(same);
  // Lines of two streams are in the order in which the runtime read them; the number of lines of an endless output is
  // random.
  const isLive = ended !== undefined || (verb === 'logs' && argv.includes('web'));
  // Without input kubectl requests two streams instead of a terminal.
  const isApart = verb === 'logs' || (verb === 'exec' && argv.includes('-t'));
  return isLive || isApart ? sorted(same, isLive) : same;
}

function sorted(text: string, onlyOnce: boolean): string {
  const lines = text.split('\n').toSorted();
  return (onlyOnce ? [...new Set(lines)] : lines).join('\n');
}

/** kubectl shows tar's messages about a copy out of a pod only if they arrive before it ends. */
const withoutTar = (text: string): string => text.replace(/^tar: .*\n/gm, '');

/** Ports, and the error of a refused IPv6 address, which depends on an entry `::1 localhost` in `/etc/hosts`. */
const withoutPorts = (text: string): string =>
  text
    .replace(/(?<=connection refused IPv6 dial tcp6)[^"]+/g, ' <refused>')
    .replace(/(?<=127\.0\.0\.1:|\[::1\]:|connection for )\d+/g, '${PORT}')
    .replace(/^E\d{4} \S+ +\d+ /gm, '<klog> ')
    .replace(/(?<=forwarding )\d+/g, '${PORT}')
    .replace(/(?<=namespace \\")[^"]*(?=\/cni-)/g, '<netns>');

/** Ages, repetition counts, addresses, and the machine's sizes and versions; columns are as wide as their content. */
const withoutMoment = (text: string): string =>
  eventsSorted(text)
    .replaceAll(release(), '<kernel>')
    .replace(/(?<=v1\.36\.\d+)\+statelet[\w.-]+/g, '')
    .replace(/(?<=containerd:\/\/\d+\.\d+\.\d+)~\w+/g, '')
    .replace(/\s*"lastProbeTime": ?null,/g, '')
    .replace(/"resourceVersion": "\d+"/g, '"resourceVersion": "<n>"')
    .replace(/\b(\d+[dhms]){1,2}( \(x\d+ over (\d+[dhms]){1,2}\))?/g, '<age>')
    .replaceAll(ownAddress(), '<ip>')
    .replace(/\b(127\.0\.0\.1|10\.\d+\.\d+\.\d+)\b/g, '<ip>')
    .replace(/\d+(?=Ki\b)/g, '<n>')
    .replace(/ {2,}/g, '  ');

/** The order of events within one second is random. */
function eventsSorted(text: string): string {
  const [before = '', events] = text.split(/^(?=Events:)/m);
  return events === undefined ? text : before + events.split('\n').toSorted().join('\n');
}

/** Ids, times, counters and the name of the host in the form of the corpus. */
export const normalized = (text: string): string =>
  text
    .replace(/\b([0-9a-f]{64}|[0-9a-f]{32})\b/g, '<id>')
    .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '<uid>')
    .replace(new RegExp(`^${hostname()}$`, 'm'), '<host>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g, '<time>')
    .replace(/\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}/g, '<time>')
    .replace(/\b(tick|err) \d+/g, '<tick>')
    .replace(/(?<=\bnode-debugger-node1-)[a-z0-9]{5}\b/g, '<suffix>')
    .replace(/\[::ffff:[\d.<ip>]+\]:(\d+|\$\{PORT\})/g, '<client>');
