/** A real kube-apiserver with its etcd, as processes of a test, and the objects that controllers would have created. */
import { type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { Authority } from '../fakes/api-server/pki.ts';
import { type ClusterUser, writeKubeconfig } from '../fakes/api-server/write-kubeconfig.ts';
import { eventually } from './daemon.ts';
import { isEmulated } from './patience.ts';
import { freePort } from './ports.ts';
import { Rest } from './rest.ts';

const STARTING_LIMIT_MS = 150_000;
/**
 * On an emulated machine a start may exceed the server's own time limits; the next start continues from its results.
 */
const STARTS_MAX = isEmulated ? 5 : 1;
/** The characters of a server's output that are kept, and those of them that are shown. */
const [LAST_WORDS_MAX, SHOWN_MAX] = [64_000, 2_000];
/** A line without a warning or an error. */
const INFORMATION = /^I\d{4} .*$\n?/gm;
/** The namespaces in which tests create pods. */
const NAMESPACES = ['default', 'kube-system'];

export interface RealApiServer {
  readonly authority: Authority;
  readonly directory: string;
  readonly url: string;
  readonly caFile: string;
  kubeconfig(user?: string, options?: ClusterUser): Promise<string>;
  close(): Promise<void>;
}

/** @param assets a folder with `etcd` and `kube-apiserver` */
export async function startRealApiServer(assets: string): Promise<RealApiServer> {
  const directory = mkdtempSync(join(tmpdir(), 'cluster-'));
  const [port, clientPort, peerPort] = [await freePort(), await freePort(), await freePort()];
  const authority = await Authority.create('cluster-ca');
  const caFile = join(directory, 'ca.crt');
  writeFileSync(caFile, authority.caPem);
  const url = `https://127.0.0.1:${port}`;
  const program = join(assets, 'kube-apiserver');
  const flags = [
    ...(await credentialFlags(authority, directory)),
    ...SERVING_FLAGS,
    ...gatesOf(program),
    `--secure-port=${port}`,
    `--etcd-servers=http://127.0.0.1:${clientPort}`,
  ];
  const running = {
    etcd: start(join(assets, 'etcd'), etcdFlags(directory, clientPort, peerPort)),
    apiServer: start(program, flags),
  };
  const place = { authority, directory, caFile, url };
  const close = async () => {
    await stop(running.apiServer);
    await stop(running.etcd);
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    const admin = new Rest(await writeKubeconfig(place, 'admin', {}));
    await untilReady(admin, running, () => start(program, flags));
    await prepare(admin, authority.caPem);
  } catch (error) {
    await close();
    throw error;
  }
  return { ...place, kubeconfig: (user = 'admin', options = {}) => writeKubeconfig(place, user, options), close };
}

const etcdFlags = (directory: string, clientPort: number, peerPort: number): string[] => [
  `--data-dir=${join(directory, 'etcd')}`,
  `--listen-client-urls=http://127.0.0.1:${clientPort}`,
  `--advertise-client-urls=http://127.0.0.1:${clientPort}`,
  `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
];

const SERVING_FLAGS = [
  '--bind-address=127.0.0.1',
  '--advertise-address=127.0.0.1',
  '--kubelet-preferred-address-types=InternalIP',
  '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
  '--service-cluster-ip-range=10.0.0.0/24',
  '--authorization-mode=Node,RBAC',
  '--enable-admission-plugins=NodeRestriction',
  '--allow-privileged=true',
];

async function credentialFlags(authority: Authority, directory: string): Promise<string[]> {
  const names = [
    { type: 'ip' as const, value: '127.0.0.1' },
    { type: 'dns' as const, value: 'localhost' },
  ];
  const serving = await authority.issue({ commonName: 'kube-apiserver', names, usages: ['server auth'] });
  const toNodes = await authority.issue({
    commonName: 'kube-apiserver-kubelet-client',
    organizations: ['system:masters'],
    usages: ['client auth'],
  });
  // The API server verifies tokens with the public key: a private key in PKCS 8 is not accepted for it.
  const accounts = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const file = (name: string, content: string) => {
    writeFileSync(join(directory, name), content, { mode: 0o600 });
    return join(directory, name);
  };
  return [
    `--cert-dir=${directory}`,
    `--tls-cert-file=${file('apiserver.crt', serving.cert)}`,
    `--tls-private-key-file=${file('apiserver.key', serving.key)}`,
    `--client-ca-file=${join(directory, 'ca.crt')}`,
    `--kubelet-client-certificate=${file('kubelet-client.crt', toNodes.cert)}`,
    `--kubelet-client-key=${file('kubelet-client.key', toNodes.key)}`,
    `--service-account-key-file=${file('sa.pub', accounts.publicKey)}`,
    `--service-account-signing-key-file=${file('sa.key', accounts.privateKey)}`,
  ];
}

/** Servers before 1.21 bind tokens to pods only with these gates. */
function gatesOf(program: string): string[] {
  const { stdout } = spawnSync(program, ['--help'], { encoding: 'utf8' });
  return stdout.includes('BoundServiceAccountTokenVolume=')
    ? ['--feature-gates=BoundServiceAccountTokenVolume=true']
    : [];
}

type Server = ChildProcessByStdio<null, null, Readable> & { lastWords?: string };

function start(file: string, flags: readonly string[]): Server {
  const child: Server = spawn(file, flags, { stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr.on('data', (chunk) => (child.lastWords = `${child.lastWords ?? ''}${chunk}`.slice(-LAST_WORDS_MAX)));
  return child;
}

const hasEnded = ({ exitCode, signalCode }: Server): boolean => exitCode !== null || signalCode !== null;

async function stop(child: Server): Promise<void> {
  if (hasEnded(child)) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

interface Running {
  readonly etcd: Server;
  /** The server that was started last. */
  apiServer: Server;
}

async function untilReady(admin: Rest, running: Running, startApiServer: () => Server): Promise<void> {
  let starts = 1;
  let dead: Server | undefined;
  const isOver = async () => {
    if (hasEnded(running.apiServer) && starts < STARTS_MAX) {
      starts += 1;
      running.apiServer = startApiServer();
    }
    dead = [running.etcd, running.apiServer].find(hasEnded);
    return dead !== undefined || (await admin.text('/readyz')) === 'ok';
  };
  await eventually('the API server is ready', isOver, STARTING_LIMIT_MS);
  if (dead) throw new Error(`${dead.spawnfile} ended with ${dead.exitCode ?? dead.signalCode}: ${lastWords(dead)}`);
}

const lastWords = (child: Server): string => (child.lastWords ?? '').replace(INFORMATION, '').slice(-SHOWN_MAX);

/** Creates the objects that the admission of pods requires, in place of kube-controller-manager. */
async function prepare(admin: Rest, caPem: string): Promise<void> {
  for (const namespace of NAMESPACES) await admin.ensure(`/api/v1/namespaces`, object('Namespace', namespace));
  for (const namespace of NAMESPACES) {
    const below = `/api/v1/namespaces/${namespace}`;
    await admin.ensure(`${below}/serviceaccounts`, object('ServiceAccount', 'default'));
    await admin.ensure(`${below}/configmaps`, object('ConfigMap', 'kube-root-ca.crt', { data: { 'ca.crt': caPem } }));
  }
}

const object = (kind: string, name: string, more: object = {}) => ({
  apiVersion: 'v1',
  kind,
  metadata: { name },
  ...more,
});
