/**
 * The recorded commands of kubectl once more, against a daemon with a real containerd and through the test API server:
 * exec and cp by WebSocket and by SPDY, logs, port-forward. What differs is excused one by one in
 * `test/golden/kubectl-excused.ts`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { parse } from 'yaml';
import { startApiServer } from '../fakes/api-server/index.ts';
import { EXCUSED } from '../golden/kubectl-excused.ts';
import { type Containerd, containerdAvailable, startContainerd } from '../support/containerd.ts';
import { eventually, freePort, TestNode } from '../support/daemon.ts';
import { requirement } from '../support/require.ts';

const GOLDEN = join(import.meta.dirname, '../golden/http');
const PODS = ['web', 'lines', 'hostnet', 'waiting', 'done', 'initwait'];
const STARTING_MS = 40_000;

type Text = string | { readonly bytes: number; readonly sha256: string };
interface Transcript {
  readonly id: string;
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: Text;
  readonly exitCode: number;
  readonly stdout: Text;
  readonly stderr: Text;
  readonly tty?: string;
  readonly ended?: string;
}
interface Said {
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
}

const transcripts = (file: string): Transcript[] =>
  (JSON.parse(readFileSync(join(GOLDEN, 'kubectl', `${file}.json`), 'utf8')) as Omit<Transcript, 'id'>[]).map(
    (each, at) => ({ ...each, id: `${file}#${at}` }),
  );

/** What cannot be played again: a terminal, an interrupt, input that the corpus has not, output of one moment. */
function isPlayable({ argv, stdin, stdout, tty, ended }: Transcript): boolean {
  if (tty !== undefined || ended !== undefined || typeof stdin === 'object') return false;
  if (argv.some((word) => ['crash', 'ender', 'shell', '--all-containers', '-f'].includes(word))) return false;
  return !(typeof stdout === 'string' && /response:200|^tick/.test(stdout));
}

const missing = spawnSync('kubectl', ['version', '--client']).status === 0 ? null : 'there is no kubectl';
const skip = requirement('kubectl', missing).skip || requirement('containerd', containerdAvailable()).skip;

/**
 * kubectl's own log of a write that came after the command had ended: whether it comes is a race inside kubectl.
 */
const STDIN_NOISE = /^E\d{4} .* v\d\.go:\d+\] "Unhandled Error" err=.*\n/gm;

describe.skipIf(skip)('the recorded commands of kubectl', () => {
  const directory = mkdtempSync(join(tmpdir(), 'statelet-kubectl-'));
  let containerd: Containerd;
  let node: TestNode;
  let server: Awaited<ReturnType<typeof startApiServer>>;
  let kubeconfig: string;

  beforeAll(async () => {
    [containerd, server] = await Promise.all([startContainerd(), startApiServer()]);
    kubeconfig = await server.kubeconfig('admin');
    node = new TestNode({ endpoint: containerd.endpoint, flags: [`--client-ca-file=${server.caFile}`] });
    for (const object of objects(containerd.image)) server.create(object);
    await node.start([`--kubeconfig=${await server.kubeconfig('system:node:node1')}`]);
    await eventually('the pods', isSettled, STARTING_MS);
  }, 90_000);
  afterAll(async () => {
    // The node takes the volumes down that would be left mounted.
    for (const name of PODS) server?.delete('v1', 'pods', name);
    await eventually('the pods are gone', () => server?.store.list('v1', 'pods', 'default').length === 0);
    await node?.close();
    await server?.close();
    await containerd?.close();
    rmSync(directory, { recursive: true, force: true });
  }, 60_000);

  /** Three pods run and are ready, one has ended, one runs its second init container, one never starts. */
  function isSettled(): boolean {
    const phases = server.store.list('v1', 'pods', 'default').map(({ metadata, status }) => {
      const { phase, containerStatuses = [] } = status as { phase?: string; containerStatuses?: { ready: boolean }[] };
      return `${metadata.name} ${phase} ${containerStatuses.filter(({ ready }) => ready).length}`;
    });
    return ['web Running 2', 'lines Running 1', 'hostnet Running 1', 'done Succeeded 0'].every((each) =>
      phases.includes(each),
    );
  }

  function start({ argv, env = {} }: Pick<Transcript, 'argv' | 'env'>) {
    const own = [`--kubeconfig=${kubeconfig}`, `--cache-dir=${join(directory, 'cache')}`];
    return spawn('kubectl', [...own, ...argv], { cwd: directory, env: { ...process.env, ...env } });
  }

  async function run(asked: Pick<Transcript, 'argv' | 'env' | 'stdin'>): Promise<Said> {
    const child = start(asked);
    const said: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
    for (const name of ['stdout', 'stderr'] as const) child[name].on('data', (chunk: Buffer) => said[name].push(chunk));
    child.stdin.on('error', () => {});
    child.stdin.end(typeof asked.stdin === 'string' ? asked.stdin : '');
    const exitCode = await new Promise<number>((ended) => child.once('close', (code) => ended(code ?? -1)));
    const stderr = Buffer.concat(said.stderr).toString('latin1').replace(STDIN_NOISE, '');
    return { exitCode, stdout: Buffer.concat(said.stdout), stderr: Buffer.from(stderr, 'latin1') };
  }

  async function play(recorded: readonly Transcript[], atOnce: number): Promise<void> {
    const wrong = new Map<string, string>();
    const queue = recorded.filter(isPlayable);
    const cases = queue.length;
    const work = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const found = differences(next, await run(next));
        if (found.length > 0) wrong.set(next.id, `${next.argv.join(' ')}: ${found.join('; ')}`);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    const unexcused = [...wrong].filter(([id]) => !(id in EXCUSED)).map(([id, why]) => `${id} ${why}`);
    const file = recorded[0]!.id.split('#')[0]!;
    process.stdout.write(
      `kubectl ${file}: ${cases - wrong.size} of ${cases} equal (${recorded.length} recorded), ` +
        `${wrong.size - unexcused.length} excused, wrong=${unexcused.length}\n`,
    );
    expect(unexcused).toEqual([]);
    expect(Object.keys(EXCUSED).filter((id) => id.startsWith(`${file}#`) && !wrong.has(id))).toEqual([]);
  }

  test.each(['exec-websocket', 'exec-spdy', 'logs'])('%s', (file) => play(transcripts(file), 3), 90_000);

  test.each(['cp-websocket', 'cp-spdy'])('%s, with files that come back as they went', async (file) => {
    const big = randomBytes(3_000_000);
    writeFileSync(join(directory, 'a.txt'), 'copied in\n', { mode: 0o640 });
    mkdirSync(join(directory, 'd'), { recursive: true });
    for (const name of ['one', 'two']) writeFileSync(join(directory, 'd', name), name);
    writeFileSync(join(directory, 'big'), big);
    await run({ argv: ['exec', 'lines', '--', 'rm', '-rf', '/tmp/a.txt', '/tmp/d', '/tmp/big'] });
    await play(transcripts(file), 1);
    expect(readFileSync(join(directory, 'back.txt'), 'utf8')).toBe('copied in\n');
    expect(readFileSync(join(directory, 'bigback')).equals(big)).toBe(true);
    expect(readFileSync(join(directory, 'dback/two'), 'utf8')).toBe('two');
    for (const name of ['back.txt', 'back2.txt', 'bigback', 'dback']) {
      rmSync(join(directory, name), { recursive: true, force: true });
    }
  });

  test.each(['true', 'false'])('port-forward, by WebSocket: %s', async (isWebSocket) => {
    const port = await freePort();
    const child = start({
      argv: ['port-forward', 'web', `${port}:http`, '--address', '127.0.0.1'],
      env: { KUBECTL_PORT_FORWARD_WEBSOCKETS: isWebSocket },
    });
    const said: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(String(chunk)));
    const ended = new Promise((resolve) => child.once('close', resolve));
    await eventually('kubectl forwards', () => {
      if (child.exitCode !== null) throw new Error(said.join(''));
      return said.join('').includes('Forwarding from');
    });
    const bodies = await Promise.all(
      Array.from({ length: 20 }, async () => (await fetch(`http://127.0.0.1:${port}/index.html`)).text()),
    );
    child.kill('SIGINT');
    await ended;
    expect(bodies).toEqual(Array.from({ length: 20 }, () => 'hello from web\n'));
    expect(said.join('')).toMatch(/^Forwarding from 127\.0\.0\.1:\d+ -> 8080\n(Handling connection for \d+\n)+$/);
  });
});

/** The manifests of the corpus, with the image of the test's own containerd and lines that the runtime can tell apart. */
function objects(image: string): object[] {
  return ['pods.yaml', 'pods2.yaml'].flatMap((file) => {
    const text = readFileSync(join(GOLDEN, 'fixtures', file), 'utf8')
      .replaceAll('docker.io/library/busybox:latest', image)
      .replaceAll('echo line $i; echo', 'echo line $i; sleep 0.05; echo');
    const { items } = parse(text) as { items: { kind: string; metadata: { name: string } }[] };
    return items.filter(({ kind, metadata }) => kind !== 'Pod' || PODS.includes(metadata.name));
  });
}

function differences(wanted: Transcript, got: Said): string[] {
  const isEqual = (left: string, right: string) =>
    wanted.argv[0] === 'logs' ? sorted(left) === sorted(right) : withoutTar(wanted, left) === withoutTar(wanted, right);
  const found = wanted.exitCode === got.exitCode ? [] : [`exit code ${wanted.exitCode} but ${got.exitCode}`];
  for (const name of ['stdout', 'stderr'] as const) {
    const [left, right] = [wanted[name], got[name]];
    const isSame = typeof left === 'string' ? isEqual(left, normalized(String(right))) : left.sha256 === sha256(right);
    if (!isSame)
      found.push(`${name} ${JSON.stringify(left)} but ${JSON.stringify(normalized(String(right))).slice(0, 600)}`);
  }
  return found;
}

/** Lines of two streams come in the order in which the runtime read them. */
const sorted = (text: string): string => text.split('\n').toSorted().join('\n');

/** kubectl shows what tar remarks while it copies out of a pod only if that comes before it ends itself. */
const withoutTar = ({ argv }: Transcript, text: string): string =>
  argv[0] === 'cp' && argv.at(-2)?.startsWith('lines:') ? text.replace(/^tar: .*\n/gm, '') : text;

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** Ids, times and the name of the host as the corpus writes them. */
const normalized = (text: string): string =>
  text
    .replace(/[0-9a-f]{64}/g, '<id>')
    .replace(new RegExp(`^${hostname()}$`, 'm'), '<host>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d)/g, '<time>');
