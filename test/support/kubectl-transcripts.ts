/**
 * The recorded commands of kubectl: how they are played again, and what of their output is the command's and what is
 * the moment's, the machine's or the image's.
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
/** Of one difference, in a message. */
const SHOWN_MAX_CHARS = 2_000;
/** How long after the recorder's time a command may say what it said there, before it is interrupted. */
const LATE_MS = patient(60_000);
const POLL_EVERY_MS = 100;
/** What a terminal's user types comes when the command is there to read it: it says something first, if only a prompt. */
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
  /** There: under script(1). */
  readonly tty?: string;
  /** There: interrupted by the recorder. */
  readonly ended?: string;
}

export interface Printed {
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
}

/** One of the different events that the corpus has, without when and how often. */
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
  /** Names of the objects. */
  readonly seenOn: readonly string[];
}

export function recordedEvents(): RecordedEvent[] {
  const text = readFileSync(join(GOLDEN, 'kubectl/events.json'), 'utf8');
  return (JSON.parse(text) as Omit<RecordedEvent, 'id'>[]).map((each, at) => ({ ...each, id: `events#${at}` }));
}

/** Of one file, in their order. `as` gives another protocol's name and environment to the same commands. */
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

/** The manifests of the corpus, with the image of the test's own containerd. The first of a name counts. */
export function fixtures(image: string): Manifest[] {
  const found = new Map<string, Manifest>();
  for (const file of ['pods.yaml', 'pods2.yaml', 'pods3.yaml']) {
    const text = readFileSync(join(GOLDEN, 'fixtures', file), 'utf8').replaceAll(IMAGE, image);
    // Lines that the runtime can tell apart, once it reads both streams: else which one came first is its luck.
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

  /** @param directory where it runs, and where its cache is */
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

  /** To its end, or to the interrupt that the recorder gave it. */
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

  /** Not before the recorder did, and not before it has said what it said there. */
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

  /** What is another image's name here. */
  text(bytes: Buffer): string {
    return String(bytes).replaceAll(this.image, IMAGE);
  }
}

/** Large inputs are not in the corpus: all bytes in their order, over and over. */
function inputOf(stdin: Text | undefined): string | Buffer {
  if (stdin === undefined || typeof stdin === 'string') return stdin ?? '';
  return Buffer.alloc(stdin.bytes, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
}

/** kubectl's own log of a write after the command had ended, and of a first frame before it listened: its own races. */
const STDIN_NOISE =
  /^E\d{4} .* (v\d\.go:\d+\] "Unhandled Error" err=|websocket\.go:\d+\] Unknown stream id 1, ).*\r?\n/gm;

/** What differs, a sentence each. */
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

/** Long texts of the moment were cut by the recorder: there is something; bytes are the same bytes. */
const isLike = ({ argv }: Transcript, { sha256 }: Exclude<Text, string>, got: Buffer): boolean =>
  DESCRIBING.includes(argv[0]!) ? got.length > 0 : sha256 === checksum(got);

/** The lines of which one of two texts has more; both texts where only the order differs. */
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

/** Commands that print what the node says of itself and its pods. */
const DESCRIBING = ['describe', 'get', 'top', 'wait', 'delete'];

function comparable({ argv, ended }: Transcript, text: string): string {
  const [verb = ''] = argv;
  let same = normalized(text).replace(STDIN_NOISE, '');
  if (verb === 'cp' && argv.at(-2)?.startsWith('lines:')) same = withoutTar(same);
  if (verb === 'port-forward') same = withoutPorts(same);
  if (argv.some((word) => word.includes('/proxy/metrics'))) same = same.replace(/ [\d.e+-]+$/gm, ' <n>');
  if (DESCRIBING.includes(verb) && !argv.includes('--raw')) same = withoutMoment(same);
  // Lines of two streams come in the order in which the runtime read them; of what goes on, how many come is luck.
  const isLive = ended !== undefined || (verb === 'logs' && argv.includes('web'));
  // Without input kubectl asks for no terminal, but for two streams.
  const isApart = verb === 'logs' || (verb === 'exec' && argv.includes('-t'));
  return isLive || isApart ? sorted(same, isLive) : same;
}

function sorted(text: string, onlyOnce: boolean): string {
  const lines = text.split('\n').toSorted();
  return (onlyOnce ? [...new Set(lines)] : lines).join('\n');
}

/** kubectl shows what tar remarks while it copies out of a pod only if that comes before it ends itself. */
const withoutTar = (text: string): string => text.replace(/^tar: .*\n/gm, '');

/** Ports; and the words in which IPv6 is refused: they depend on whether `/etc/hosts` gives `localhost` a `::1`. */
const withoutPorts = (text: string): string =>
  text
    .replace(/(?<=connection refused IPv6 dial tcp6)[^"]+/g, ' <refused>')
    .replace(/(?<=127\.0\.0\.1:|\[::1\]:|connection for )\d+/g, '${PORT}')
    .replace(/^E\d{4} \S+ +\d+ /gm, '<klog> ')
    .replace(/(?<=forwarding )\d+/g, '${PORT}')
    .replace(/(?<=namespace \\")[^"]*(?=\/cni-)/g, '<netns>');

/** Ages, counts of what repeats, addresses, sizes and versions of the machine; columns as wide as their content. */
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

/** Events of one second come in any order. */
function eventsSorted(text: string): string {
  const [before = '', events] = text.split(/^(?=Events:)/m);
  return events === undefined ? text : before + events.split('\n').toSorted().join('\n');
}

/** Ids, times, counters and the name of the host as the corpus writes them. */
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
