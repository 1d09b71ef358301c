/**
 * The node on which the HTTP corpus was recorded: its pods and their logs, its users and their rights, its four
 * configurations, behind the real server on real sockets.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { connectRuntime } from '../../../src/actors/cri/client.ts';
import type { Create } from '../../../src/actors/server/authentication.ts';
import { healthzPort } from '../../../src/actors/server/endpoints/health.ts';
import { ApiServer, type RequestLimits } from '../../../src/actors/server/http/api-server.ts';
import { ownInsight } from '../../../src/actors/server/http/inspector.ts';
import { kubeletApi } from '../../../src/actors/server/kubelet-api.ts';
import { RequestMetrics } from '../../../src/actors/server/metrics/calls/request-metrics.ts';
import { nodeMetrics } from '../../../src/actors/server/metrics/node-metrics.ts';
import { Recorder } from '../../../src/actors/server/metrics/recorder.ts';
import type { NodePod } from '../../../src/actors/server/node-pods.ts';
import { type ServerOptions, servePort } from '../../../src/actors/server/node-port.ts';
import { flagValues } from '../../../src/actors/server/node-server.ts';
import type { NodeView } from '../../../src/actors/server/node-view.ts';
import { runtimeCalls, runtimeStreamUrls } from '../../../src/actors/server/streaming/endpoints.ts';
import { Listener } from '../../../src/actors/server/tls/listener.ts';
import { StatsReader } from '../../../src/actors/stats/reader.ts';
import { applyDefaults, evictionHardOf } from '../../../src/machines/configuration/fields/defaults.ts';
import type { KubeObject } from '../../../src/machines/model/operations/kube.ts';
import type { ServedPort, ServerItem } from '../../../src/machines/model/operations/server.ts';
import { startApiServer } from '../../fakes/api-server/index.ts';
import { Authority, type Credential } from '../../fakes/api-server/pki.ts';
import { MACHINE_INFO } from '../../machines/startup/boot-node.ts';
import { writeMachine } from '../../support/machine-files.ts';
import { FakeRuntime, Refusal } from '../cri/fake-runtime.ts';
import { corpusPods, goldenPods } from './golden-pods.ts';
import { recordings } from './golden-records.ts';

/** The credentials of a client: a certificate, a token, a password, or several of them. */
export interface Shown {
  readonly certificate?: Credential;
  readonly authorization?: string;
}

const FINE = ['pods', 'log', 'stats', 'configz', 'healthz', 'metrics'];
/** Users of the corpus by credential, and their one right; verbs `*` by default. */
const TOKENS: Readonly<Record<string, readonly [user: string, subresources: readonly string[], verb?: string]>> = {
  'token-norights': ['norights', []],
  'token-nodes/metrics': ['metricsonly', ['metrics']],
  'token-nodes/proxy-get': ['proxyget', ['proxy'], 'get'],
  'token-nodes/proxy-create': ['proxycreate', ['proxy'], 'create'],
  'token-nodes/pods': ['fgpods', ['pods']],
  'token-nodes/log': ['fglog', ['log']],
  'token-nodes/stats': ['fgstats', ['stats']],
  'token-nodes/configz': ['fgconfigz', ['configz']],
  'token-nodes/healthz': ['fghealthz', ['healthz']],
  'token-nodes/checkpoint': ['fgcheckpoint', ['checkpoint']],
  'token-fine-grained-all': ['fgall', FINE],
};

const tokenOf = (credential: string): string => `the-token-of-${credential}`;

async function certificates(authority: Authority): Promise<Record<string, Credential>> {
  const other = await Authority.create('another-ca');
  const client = ['client auth'];
  const past = { notBefore: new Date('2020-01-01T00:00:00Z'), notAfter: new Date('2020-02-01T00:00:00Z') };
  const admin = { commonName: 'admin', organizations: ['system:masters'], usages: client };
  return {
    'x509-admin': await authority.issue(admin),
    'x509-nobody': await authority.issue({ commonName: 'nobody', usages: client }),
    'x509-node1': await authority.issue({
      commonName: 'system:node:node1',
      organizations: ['system:nodes'],
      usages: client,
    }),
    'x509-apiserver-client': await authority.issue({ ...admin, commonName: 'kube-apiserver-kubelet-client' }),
    'x509-wrong-ca': await other.issue(admin),
    'x509-expired': await authority.issue({ ...admin, ...past }),
    'x509-serverauth-only': await authority.issue({ ...admin, usages: ['server auth'] }),
  };
}

/** The credential with this name in the corpus; names joined by `+` are several. */
function shownBy(name: string, issued: Readonly<Record<string, Credential>>): Shown {
  if (name === 'none') return {};
  if (name === 'basic-auth') return { authorization: `Basic ${Buffer.from('admin:admin').toString('base64')}` };
  if (name === 'bearer-empty') return { authorization: 'Bearer ' };
  const certificate = Object.keys(issued).find((each) => name === each || name.startsWith(`${each}+`));
  const token = certificate === undefined ? name : name.slice(certificate.length + 1);
  return {
    ...(certificate === undefined ? {} : { certificate: issued[certificate]! }),
    ...(token === '' ? {} : { authorization: `Bearer ${tokenOf(token)}` }),
  };
}

/** Creates reviews at a real API server, as the node's own client. */
function creator(url: string, ca: string, own: Credential): Create {
  return ({ apiVersion, resource, body }) =>
    new Promise((resolve, reject) => {
      const path = `/apis/${apiVersion}/${resource}`;
      const options = { method: 'POST', ca, ...own, headers: { 'content-type': 'application/json' } };
      const sent = httpsRequest(new URL(path, url), options, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => resolve(JSON.parse(Buffer.concat(chunks).toString()) as KubeObject));
      });
      sent.on('error', reject);
      sent.end(JSON.stringify(body));
    });
}

/** Commands of the corpus with the answers of busybox. */
const COMMANDS: Readonly<Record<string, readonly [stdout: string, stderr: string, exitCode: number]>> = {
  true: ['', '', 0],
  false: ['', '', 1],
  'echo hi': ['hi\n', '', 0],
  'echo hi there': ['hi there\n', '', 0],
  'echo uid': ['uid\n', '', 0],
  'ls /nonexistent': ['', 'ls: /nonexistent: No such file or directory\n', 1],
};
const UNKNOWN = status.UNKNOWN;
const NOT_STARTED =
  'failed to exec in container: failed to start exec "<id>": OCI runtime exec failed: exec failed: ' +
  'unable to start container process:';
/** In the corpus, the first word of only one command matters. */
const known = (cmd: readonly string[] | undefined): string => (cmd?.[0] === 'nosuchcmd' ? 'nosuchcmd' : '');

async function runtime(): Promise<FakeRuntime> {
  return await FakeRuntime.start({
    ExecSync: ({ cmd }) => {
      const answer = COMMANDS[(cmd ?? []).join(' ')];
      if (!answer)
        throw new Refusal(UNKNOWN, `${NOT_STARTED} exec: "${known(cmd)}": executable file not found in $PATH: unknown`);
      const [stdout, stderr, exit_code] = answer;
      return { stdout: Buffer.from(stdout), stderr: Buffer.from(stderr), exit_code };
    },
  });
}

type Secure = NonNullable<ServedPort['secure']>;

const SETTINGS: ServedPort['settings'] = {
  nodeName: 'node1',
  rootDir: '/var/lib/kubelet',
  podLogsDir: '/var/log/pods',
  debuggingHandlers: true,
  systemLogHandler: true,
  systemLogQuery: false,
  profilingHandler: true,
  debugFlagsHandler: true,
  splitStreams: false,
};

/** The four configurations of the corpus, by the name in a record's `server`. */
export const RUNS = {
  A: {},
  B: { systemLogQuery: true, splitStreams: true },
  C: { debuggingHandlers: false },
  D: { profilingHandler: false, debugFlagsHandler: false, systemLogHandler: false },
} as const;

/** The lines of a recorded log. */
function linesOf(id: string): string[] {
  const { body = '' } = recordings().find((each) => each.id === id)!;
  return body.trimEnd().split('\n');
}

export class GoldenNode {
  readonly directory = mkdtempSync(join(tmpdir(), 'statelet-golden-http-'));
  readonly logDirectory = join(this.directory, 'log');
  private machine = '';
  pods: NodePod[] = [];
  issued: Record<string, Credential> = {};
  authority!: Authority;
  api!: Awaited<ReturnType<typeof startApiServer>>;
  private fake!: FakeRuntime;
  private options!: ServerOptions;

  /** @param runtime the address of a real runtime, instead of the fake one that knows the commands of the corpus */
  static async start(runtime?: string): Promise<GoldenNode> {
    const node = new GoldenNode();
    await node.prepare(runtime);
    return node;
  }

  private async prepare(realRuntime?: string): Promise<void> {
    const pods = corpusPods(linesOf('logs-001'), linesOf('logs-path-024'));
    this.pods = goldenPods(join(this.directory, 'pods'), pods);
    this.machineLogs();
    this.api = await startApiServer();
    this.grant();
    this.authority = await Authority.create('golden-ca');
    this.issued = await certificates(this.authority);
    this.fake = await runtime();
    this.machine = writeMachine(join(this.directory, 'machine'));
    this.options = this.serverOptions(await this.client(), realRuntime ?? this.fake.endpoint);
    const serving = await this.authority.issue({
      commonName: 'node1',
      usages: ['server auth'],
      names: [{ type: 'ip', value: '127.0.0.1' } as never],
    });
    writeFileSync(this.file('kubelet.crt'), serving.cert);
    writeFileSync(this.file('kubelet.key'), serving.key);
    writeFileSync(this.file('ca.crt'), this.authority.caPem);
  }

  file(name: string): string {
    return join(this.directory, name);
  }

  private machineLogs(): void {
    mkdirSync(join(this.logDirectory, 'apt'), { recursive: true });
    for (const folder of ['containers', 'pods']) mkdirSync(join(this.logDirectory, folder));
    for (const name of ['a.log', 'b.log', 'history.log'])
      writeFileSync(join(this.logDirectory, 'apt', name), '\nStart\n');
    symlinkSync('/etc/passwd', join(this.logDirectory, 'link'));
    writeFileSync(join(this.logDirectory, 'dpkg.log'), 'line of dpkg\n'.repeat(100));
  }

  private grant(): void {
    for (const [credential, [name, subresources, verb = '*']] of Object.entries(TOKENS)) {
      this.api.users.tokens.set(tokenOf(credential), { name, groups: [] });
      const resources = subresources.map((subresource) => `nodes/${subresource}`);
      if (resources.length > 0) this.api.accessRules.push({ user: name, verbs: [verb], resources });
    }
  }

  private async client(): Promise<Create> {
    const { parse } = await import('yaml');
    const config = parse(readFileSync(await this.api.kubeconfig('admin'), 'utf8')) as {
      users: { user: Record<string, string> }[];
    };
    const user = config.users[0]!.user;
    const read = (name: string) =>
      user[`${name}-data`]
        ? Buffer.from(user[`${name}-data`]!, 'base64').toString()
        : readFileSync(user[name]!, 'utf8');
    const own = { cert: read('client-certificate'), key: read('client-key') };
    return creator(this.api.url, readFileSync(this.api.caFile, 'utf8'), own);
  }

  private serverOptions(create: Create, endpoint: string): ServerOptions {
    const configuration = { ...applyDefaults({}, {}), evictionHard: evictionHardOf({}) };
    const view: NodeView = {
      nodeName: () => 'node1',
      configuration: () => configuration,
      runtime: () => null,
      cgroupVersion: () => 1,
      machine: () => MACHINE_INFO,
      evictions: () => ({}),
      allocatableCpus: () => [],
      pods: () => this.pods,
      contexts: () => [],
      rootDir: () => null,
      checks: { ping: () => null, log: () => null, syncloop: () => null, 'device-plugin': () => null },
    };
    const recorder = new Recorder({ journalBytes: () => 0 });
    const client = connectRuntime({ endpoint });
    const call: typeof client.call = (name, request, limits) => client.call(name, request, limits);
    const reader = new StatsReader({ call, root: this.machine });
    const place = {
      nodeName: 'node1',
      rootDir: this.directory,
      podLogsDir: this.directory,
      podsCgroup: '',
      systemCgroups: { kubelet: '', runtime: '', misc: '' },
    };
    const stats = {
      summary: (asked: object) => reader.summary(place, asked),
      cgroups: () => reader.cgroups(place),
      disks: () => reader.disks(),
      levels: () => reader.levels(),
      driverVolumes: async () => [],
    };
    return {
      view,
      create,
      stats,
      ...runtimeCalls(call),
      streams: runtimeStreamUrls(call),
      metrics: nodeMetrics({ view, recorder, measurements: stats, version: 'v1.36.2' }),
      requests: new RequestMetrics(recorder.registry),
      setVerbosity: () => {},
      insight: ownInsight,
      flags: () => flagValues([]),
      program: { startedAt: Date.now(), version: '1.36.2' },
      logDirectory: this.logDirectory,
      warn: () => {},
    };
  }

  /** Serves the kubelet's port with one of the corpus's configurations. Resolves with the port. */
  async serve(run: keyof typeof RUNS, auth: Partial<Secure['auth']> = {}, tls: Partial<Secure['tls']> = {}) {
    const secure: ServedPort['secure'] = {
      tls: {
        certFile: this.file('kubelet.crt'),
        keyFile: this.file('kubelet.key'),
        mayBeMissing: false,
        minVersion: '',
        cipherSuites: [],
        ...tls,
      },
      auth: {
        anonymous: run === 'C',
        webhookAuthentication: true,
        clientCAFile: this.file('ca.crt'),
        authorization: 'Webhook',
        tokenTtlMs: 120_000,
        authorizedTtlMs: 300_000,
        unauthorizedTtlMs: 30_000,
        ...auth,
      },
    };
    return await this.open({ address: '127.0.0.1', port: 0, settings: { ...SETTINGS, ...RUNS[run] }, secure });
  }

  async serveReadOnly(): Promise<number> {
    return await this.open({ address: '127.0.0.1', port: 0, settings: SETTINGS, secure: null });
  }

  readonly emitted: ServerItem[] = [];
  private readonly closing = new AbortController();
  private readonly served: Promise<unknown>[] = [];

  private async open(input: ServedPort): Promise<number> {
    return await new Promise((resolve, reject) => {
      const emit = (item: ServerItem) => {
        this.emitted.push(item);
        if (item.type === 'server.listening') resolve(item.port);
      };
      const call = { id: 0, input, resume: false, signal: this.closing.signal, emit };
      const served = servePort(call, this.options);
      served.catch(reject);
      this.served.push(served);
    });
  }

  /** Serves every endpoint of the kubelet's port to every client, without TLS, for tests with very many requests. */
  async serveOpenly(limits?: RequestLimits): Promise<number> {
    const { endpoints, slashed } = kubeletApi(SETTINGS, this.options);
    const onAnswered = (method: string, path: string, ms: number) =>
      this.options.requests.answered('readwrite', method, path, ms);
    const gate = async () => null;
    const onRequest = (method: string, path: string) => this.options.requests.began('readwrite', method, path);
    const api = await new ApiServer({
      endpoints,
      slashed,
      gate,
      onRequest,
      onAnswered,
      ...(limits ? { limits } : {}),
    }).open();
    const listener = new Listener({ address: '127.0.0.1', port: 0, accept: (socket) => api.accept(socket), tls: null });
    this.closeOpenly = async () => {
      await listener.close();
      await api.close();
    };
    return await listener.listen();
  }

  /** Serves only the port of /healthz. */
  async serveHealthz(): Promise<number> {
    return await new Promise((resolve) => {
      const emit = (item: { readonly type: string; readonly port?: number }) => resolve(item.port!);
      const call = {
        id: 0,
        input: { address: '127.0.0.1', port: 0 },
        resume: false,
        signal: this.closing.signal,
        emit,
      };
      this.served.push(healthzPort(call));
    });
  }

  shown(credential: string): Shown {
    return shownBy(credential, this.issued);
  }

  private closeOpenly = async (): Promise<void> => {};

  async close(): Promise<void> {
    this.closing.abort();
    await this.closeOpenly();
    await Promise.allSettled(this.served);
    await Promise.all([this.fake.close(), this.api.close()]);
    rmSync(this.directory, { recursive: true, force: true });
  }
}
