/**
 * The first line of the page for starts that fail, wait, or end with a node that is not Ready: the phase, the wait and
 * the reason. Every start is a real daemon; its journal is converted to a report and opened in a real browser.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startApiServer } from '../fakes/api-server/index.ts';
import { containerdAvailable, startContainerd } from '../support/containerd.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { FAILING_STARTS } from '../support/failing-starts.ts';
import { requirement } from '../support/require.ts';

const CHROMIUM = process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium';
const missing = existsSync(CHROMIUM) ? null : `there is no ${CHROMIUM}; STATELET_CHROMIUM names another`;
const { skip } = requirement('browser', missing);
const { skip: noContainerd } = requirement('containerd', containerdAvailable());
/** For a browser and a daemon on two busy cores. */
const PATIENCE_MS = 60_000;

let browser: Browser;
let page: Page;
let node: TestNode;
/** Undone after each start, the last one first. */
let undo: (() => unknown)[] = [];

beforeAll(async () => {
  if (skip) return;
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
  page = await (await browser.newContext({ offline: true })).newPage();
  page.setDefaultTimeout(PATIENCE_MS);
}, PATIENCE_MS);

afterAll(() => browser?.close());

afterEach(async () => {
  await node.stop('SIGKILL');
  for (const step of undo.toReversed()) await step();
  undo = [];
  await node.close();
});

/** The first line that a reader of this node's report sees. */
async function firstLine(): Promise<string> {
  const report = join(node.directory, 'report.html');
  const { code, stderr } = node.statelet('view', node.journal, '--output', report);
  if (code !== 0) throw new Error(stderr);
  await page.goto(pathToFileURL(report).href);
  await page.getByText('journal', { exact: true }).waitFor();
  return (await page.locator('#summary').textContent()) ?? '';
}

describe.skipIf(skip)('a start that ends', () => {
  it.each(Object.entries(FAILING_STARTS))('%s', async (_, { phase, message, configuration, environment, ...more }) => {
    node = new TestNode(configuration === undefined ? {} : { configuration });
    const flags = more.flags?.(node.directory) ?? [];
    const podLogs = more.podLogs ?? node.logs;
    await node.once('run', ['--visualizer-port=off', ...flags], { ...(environment && { environment }), podLogs });
    const line = await firstLine();
    expect(line).toMatch(/^Failed after [\d.]+ m?s in /);
    expect(line).toContain(` in ${phase}: `);
    expect(line).toContain(message(node.directory));
  });
});

interface WaitingStart {
  readonly flags?: () => readonly string[] | Promise<readonly string[]>;
  readonly configuration?: string;
  readonly expected: RegExp;
}

async function listening(server: Server, at: string | number): Promise<number> {
  await new Promise<void>((resolve) => server.listen(at as string, resolve));
  undo.push(() => new Promise((resolve) => server.close(resolve)));
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** A server that accepts connections and sends nothing. */
async function silent(at: string | number): Promise<number> {
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((socket) => sockets.add(socket.on('error', () => {})));
  const port = await listening(server, at);
  undo.push(() => sockets.forEach((socket) => socket.destroy()));
  return port;
}

async function apiServer() {
  const server = await startApiServer();
  undo.push(() => server.close());
  return server;
}

async function runtimeWithoutNetwork(): Promise<string> {
  const containerd = await startContainerd();
  undo.push(() => containerd.close());
  const folder = join(containerd.directory, 'cni');
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
  return containerd.endpoint;
}

async function heldLock(): Promise<string> {
  const lock = join(node.directory, 'lock');
  writeFileSync(lock, '');
  const holder: ChildProcess = spawn('flock', [lock, '-c', 'echo held; exec sleep 600'], { stdio: 'pipe' });
  undo.push(() => holder.kill());
  await new Promise((resolve) => holder.stdout!.once('data', resolve));
  return lock;
}

const UNREGISTERED = String.raw`started in .+, but it is not registered with the API server \(kube\.create`;

const WAITING: Readonly<Record<string, WaitingStart>> = {
  'a runtime that takes connections and never answers': {
    flags: async () => {
      const socket = join(node.directory, 'hung.sock');
      await silent(socket);
      return [`--container-runtime-endpoint=unix://${socket}`];
    },
    expected: /run\.runtimeService waits for the container runtime to answer \(.*runtime\.connect of unix:.+hung\.sock/,
  },
  'a lock file that another process holds': {
    flags: async () => [`--lock-file=${await heldLock()}`],
    expected: /run\.lockFile waits for the lock file \(.*host\.acquireLock of .+ has not answered for/,
  },
  'an API server that is away': {
    flags: async () => {
      const server = await apiServer();
      const kubeconfig = await server.kubeconfig('system:node:node1');
      await server.stop();
      return [`--kubeconfig=${kubeconfig}`];
    },
    expected: new RegExp(`${UNREGISTERED}.+ECONNREFUSED|connection refused`),
  },
  'an API server whose certificate another authority signed': {
    flags: async () => {
      const [server, other] = [await apiServer(), await apiServer()];
      const kubeconfig = JSON.parse(readFileSync(await server.kubeconfig('system:node:node1'), 'utf8'));
      kubeconfig.clusters[0].cluster['certificate-authority'] = other.caFile;
      const path = join(node.directory, 'kubeconfig');
      writeFileSync(path, JSON.stringify(kubeconfig));
      return [`--kubeconfig=${path}`];
    },
    expected: new RegExp(`${UNREGISTERED}.+certificate`),
  },
  'an API server that does not know the token': {
    flags: async () => [`--kubeconfig=${await (await apiServer()).kubeconfig('nobody', { token: 'unknown' })}`],
    expected: new RegExp(`${UNREGISTERED}.+Unauthorized`),
  },
  'a certificate signing request that is never approved': {
    configuration: 'rotateCertificates: true',
    flags: async () => {
      const bootstrap = await (await apiServer()).kubeconfig('system:bootstrap:abcdef', { groups: ['system:none'] });
      return [`--bootstrap-kubeconfig=${bootstrap}`, `--kubeconfig=${join(node.directory, 'kc')}`];
    },
    expected: /but its client certificate is missing: CertificateSigningRequest \S+ is not approved and signed/,
  },
  "a busy port of the node's API": {
    flags: async () => [`--port=${await silent(0)}`],
    expected: /^Failed after .+ in serving: listen tcp 127\.0\.0\.1:\d+: bind: address already in use/,
  },
  'a busy port of healthz': {
    flags: async () => [`--healthz-port=${await silent(0)}`],
    expected: /^Ready after .+; but server\.healthz failed .+ address already in use/,
  },
  'a full disk': {
    flags: async () => {
      const disk = join(node.directory, 'disk');
      mkdirSync(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=64', 'tmpfs', disk]);
      undo.push(() => execFileSync('umount', ['--lazy', disk]));
      const folders = [`--root-dir=${disk}`, `--journal-dir=${node.journal}`];
      // A start that ends early, and leaves the key of the journal's secrets.
      await node.once('run', ['--visualizer-port=off', `--lock-file=${node.directory}/none/lock`, ...folders]);
      expect(() => fill(disk)).toThrow('no space left on device');
      return folders;
    },
    expected: /^Failed after .+ in run\.runtimeService: .*ENOSPC: no space left on device/,
  },
};

function fill(disk: string): void {
  for (let i = 0; ; i++) writeFileSync(join(disk, `ballast-${i}`), '');
}

describe.skipIf(skip)('a start that waits', () => {
  it.each(Object.entries(WAITING))('%s', async (_, { flags, configuration, expected }) => {
    node = new TestNode(configuration === undefined ? {} : { configuration });
    // healthz may never answer, or the daemon may end: the journal shows what happened.
    node.start(await flags?.()).catch(() => undefined);
    await eventually('the first line', async () => {
      const line = await firstLine();
      if (!expected.test(line)) throw new Error(line);
      return true;
    });
  });

  it.skipIf(noContainerd)('a runtime without a network', async () => {
    node = new TestNode({ endpoint: await runtimeWithoutNetwork() });
    await node.start();
    const line = await firstLine();
    expect(line).toMatch(/started in .+, but container runtime network not ready: NetworkReady=false reason:/);
  });
});
