/**
 * The API server that the tests of the cluster tier run against: a real kube-apiserver with its etcd when
 * `KUBEBUILDER_ASSETS` names a folder that has both, the test API server otherwise.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { KubeClient } from '../../src/actors/kube/client.ts';
import { loadKubeconfig } from '../../src/actors/kube/kubeconfig.ts';
import { Transport } from '../../src/actors/kube/transport.ts';
import { startApiServer } from '../fakes/api-server/index.ts';
import { Authority } from '../fakes/api-server/pki.ts';
import { type ClusterUser, writeKubeconfig } from '../fakes/api-server/write-kubeconfig.ts';

export interface Cluster {
  readonly isReal: boolean;
  readonly url: string;
  /** Of those who may ask the nodes. */
  readonly caFile: string;
  /** Path of a kubeconfig with a client certificate of this user. */
  kubeconfig(user?: string): Promise<string>;
  close(): Promise<void>;
}

const STARTING_LIMIT_MS = 60_000;
/** Characters of what a server said before it ended. */
const LAST_WORDS_MAX = 2_000;

/** Why there is no real API server here, or null. */
export function realClusterMissing(): string | null {
  const assets = process.env['KUBEBUILDER_ASSETS'];
  if (!assets) return 'KUBEBUILDER_ASSETS does not name a folder with etcd and kube-apiserver';
  const missing = ['etcd', 'kube-apiserver'].filter((name) => !existsSync(join(assets, name)));
  return missing.length === 0 ? null : `${assets} has no ${missing.join(' and no ')}`;
}

export async function startCluster(): Promise<Cluster> {
  return realClusterMissing() === null ? await startReal(process.env['KUBEBUILDER_ASSETS']!) : await startTest();
}

async function startTest(): Promise<Cluster> {
  const server = await startApiServer();
  return {
    isReal: false,
    url: server.url,
    caFile: server.caFile,
    kubeconfig: (user) => server.kubeconfig(user),
    close: () => server.close(),
  };
}

async function startReal(assets: string): Promise<Cluster> {
  const directory = mkdtempSync(join(tmpdir(), 'cluster-'));
  const [port, clientPort, peerPort] = [await freePort(), await freePort(), await freePort()];
  const authority = await Authority.create('cluster-ca');
  const caFile = join(directory, 'ca.crt');
  writeFileSync(caFile, authority.caPem);
  const url = `https://127.0.0.1:${port}`;
  const etcd = start(join(assets, 'etcd'), etcdFlags(directory, clientPort, peerPort));
  const flags = await apiServerFlags(authority, directory, port, clientPort);
  const apiServer = start(join(assets, 'kube-apiserver'), flags);
  const kubeconfig = (user = 'admin', more: ClusterUser = {}) =>
    writeKubeconfig({ authority, directory, caFile, url }, user, more);
  const close = async () => {
    await stop(apiServer);
    await stop(etcd);
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await untilReady(await kubeconfig(), [etcd, apiServer]);
  } catch (error) {
    await close();
    throw error;
  }
  return { isReal: true, url, caFile, kubeconfig, close };
}

const etcdFlags = (directory: string, clientPort: number, peerPort: number): string[] => [
  `--data-dir=${join(directory, 'etcd')}`,
  `--listen-client-urls=http://127.0.0.1:${clientPort}`,
  `--advertise-client-urls=http://127.0.0.1:${clientPort}`,
  `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
];

async function apiServerFlags(
  authority: Authority,
  directory: string,
  port: number,
  etcdPort: number,
): Promise<string[]> {
  const names = [{ type: 'ip' as const, value: '127.0.0.1' }];
  const serving = await authority.issue({ commonName: 'kube-apiserver', names, usages: ['server auth'] });
  const file = (name: string, content: string) => {
    writeFileSync(join(directory, name), content, { mode: 0o600 });
    return join(directory, name);
  };
  const toNodes = await authority.issue({
    commonName: 'kube-apiserver-kubelet-client',
    organizations: ['system:masters'],
    usages: ['client auth'],
  });
  // The API server reads a public key only as such; a private one in PKCS 8 is none to it.
  const accounts = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  return [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${port}`,
    `--cert-dir=${directory}`,
    `--tls-cert-file=${file('apiserver.crt', serving.cert)}`,
    `--tls-private-key-file=${file('apiserver.key', serving.key)}`,
    `--client-ca-file=${join(directory, 'ca.crt')}`,
    `--kubelet-client-certificate=${file('kubelet-client.crt', toNodes.cert)}`,
    `--kubelet-client-key=${file('kubelet-client.key', toNodes.key)}`,
    '--kubelet-preferred-address-types=InternalIP',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${file('sa.pub', accounts.publicKey)}`,
    `--service-account-signing-key-file=${file('sa.key', accounts.privateKey)}`,
    '--service-cluster-ip-range=10.0.0.0/24',
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged=true',
    // Nobody here makes the service accounts that this plugin wants pods to have.
    '--disable-admission-plugins=ServiceAccount',
  ];
}

type Server = ChildProcessByStdio<null, null, Readable> & { lastWords?: string };

function start(file: string, flags: readonly string[]): Server {
  const child: Server = spawn(file, flags, { stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr.on('data', (chunk) => (child.lastWords = `${child.lastWords ?? ''}${chunk}`.slice(-LAST_WORDS_MAX)));
  return child;
}

async function stop(child: Server): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

async function untilReady(kubeconfig: string, children: readonly Server[]): Promise<void> {
  const client = adminClient(kubeconfig);
  for (const end = performance.now() + STARTING_LIMIT_MS; ; ) {
    const dead = children.find((child) => child.exitCode !== null);
    if (dead) throw new Error(`${dead.spawnfile} ended with ${dead.exitCode}: ${dead.lastWords}`);
    const answer = await client
      .call({ method: 'GET', path: '/readyz', signal: AbortSignal.timeout(STARTING_LIMIT_MS) })
      .catch(() => '');
    if (answer === 'ok') return;
    if (performance.now() > end) throw new Error('the API server did not become ready');
    await sleep(200);
  }
}

/** Requests without limits as the user of a kubeconfig. */
function adminClient(kubeconfig: string): KubeClient {
  const transport = new Transport(loadKubeconfig(kubeconfig), null);
  return new KubeClient({ transport, userAgent: 'statelet-tests', limit: null, timeoutMs: 0 });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
