/**
 * The consequences of each failing step of a start: fatal ones end the node with the kubelet's text, exit code 1 and a
 * last record that names the phase; the others are only logged.
 */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { KernelFeed } from '../../../src/actors/server/visualizer/feed.ts';
import type { StateRecord } from '../../../src/kernel/records.ts';
import { answerOf } from '../../../src/visualizer/answer.ts';
import { type Answers, ARGV, BootNode, document, fail, MACHINE_INFO, ok } from './boot-node.ts';

const BOOT_MS = 30_000;

/** The last line of a recorded kubelet, with the paths of the case. */
function golden(name: string): string {
  const url = new URL(`../../golden/config/cases/${name}.json`, import.meta.url);
  const { expect: wanted } = JSON.parse(readFileSync(url, 'utf8')) as { expect: { stderr: string[] } };
  const quoted = /^"command failed" err=(".*")$/.exec(wanted.stderr.at(-1)!)?.[1];
  return (JSON.parse(quoted!) as string).replaceAll('${DIR}', '/case');
}

interface Fatal {
  readonly argv?: readonly string[];
  readonly answers?: Answers;
  readonly phase: string;
  readonly message: string;
}

const FILE = ['--config=/case/kubelet.yaml'];
const unreadable = {
  kind: 'unreadable',
  path: '/case/kubelet.yaml',
  message: 'open /case/kubelet.yaml: no such file or directory',
};
const noSocket =
  'connection error: desc = "transport: Error while dialing: dial unix /case/no.sock: connect: no such file or directory"';
const run = (text: string) => `failed to run Kubelet: ${text}`;

const FATAL: Readonly<Record<string, Fatal>> = {
  'an unknown flag': {
    argv: ['--nope'],
    phase: 'command.loadingConfiguration',
    message: golden('cli-help-and-bad-flag'),
  },
  'an argument that is no flag': {
    argv: ['positional'],
    phase: 'command.loadingConfiguration',
    message: golden('flag-spell-positional'),
  },
  'a configuration file that is not there': {
    argv: FILE,
    answers: { 'host.readConfiguration': ok(unreadable) },
    phase: 'command.loadingConfiguration',
    message:
      'failed to load kubelet config file, path: /case/kubelet.yaml, error: failed to load Kubelet config file ' +
      '/case/kubelet.yaml, error failed to read kubelet config file "/case/kubelet.yaml", error: ' +
      'open /case/kubelet.yaml: no such file or directory',
  },
  'a configuration file that the host cannot read at all': {
    argv: FILE,
    answers: { 'host.readConfiguration': fail('too many open files') },
    phase: 'command.loadingConfiguration',
    message:
      'failed to load kubelet config file, path: /case/kubelet.yaml, error: failed to load Kubelet config file ' +
      '/case/kubelet.yaml, error failed to read kubelet config file "/case/kubelet.yaml", error: too many open files',
  },
  'an invalid configuration': {
    argv: FILE,
    answers: { 'host.readConfiguration': ok(document({ maxPods: -1 })) },
    phase: 'command.loadingConfiguration',
    message:
      'failed to validate kubelet configuration, error: invalid configuration: maxPods (--max-pods) -1 must not be a ' +
      'negative number, path: &TypeMeta{Kind:,APIVersion:,}',
  },
  'a key of its own without the certificate': {
    answers: { 'host.readable': ok({ readable: [false, true] }) },
    phase: 'command.initializingTLS',
    message:
      'failed to construct kubelet dependencies: error reading /var/lib/kubelet/pki/kubelet.crt, certificate and key ' +
      'must be supplied as a pair',
  },
  'a certificate of its own without the key': {
    answers: { 'host.readable': ok({ readable: [true, false] }) },
    phase: 'command.initializingTLS',
    message:
      'failed to construct kubelet dependencies: error reading /var/lib/kubelet/pki/kubelet.key, certificate and key ' +
      'must be supplied as a pair',
  },
  'cgroup v1 that the configuration refuses': {
    argv: ['--fail-cgroupv1=true'],
    answers: { 'host.cgroups': ok({ version: 1, controllers: ['cpu'], swapCounted: false }) },
    phase: 'command.loadingConfiguration',
    message: golden('precedence-fail-cgroupv1'),
  },
  'a cgroup hierarchy that cannot be read': {
    answers: { 'host.cgroups': fail('open /proc/self/mountinfo: permission denied') },
    phase: 'command.loadingConfiguration',
    message: 'open /proc/self/mountinfo: permission denied',
  },
  'contention without a lock file': {
    argv: ['--exit-on-lock-contention'],
    phase: 'command.loadingConfiguration',
    message: golden('flag-one-exit-on-lock-contention'),
  },
  'a lock file that cannot be had': {
    argv: ['--lock-file=/no/where'],
    answers: { 'host.acquireLock': fail('no such file or directory', 'ENOENT') },
    phase: 'run.lockFile',
    message: run('unable to acquire file lock on "/no/where": no such file or directory'),
  },
  'an empty host name': {
    answers: { 'host.hostname': ok({ hostname: ' \n' }) },
    phase: 'run.hostname',
    message: run('empty hostname is invalid'),
  },
  'a host name that cannot be read': {
    answers: { 'host.hostname': fail('open /proc/sys/kernel/hostname: permission denied') },
    phase: 'run.hostname',
    message: run("couldn't determine hostname: open /proc/sys/kernel/hostname: permission denied"),
  },
  'a kubeconfig that is not there': {
    argv: ['--kubeconfig=/case/kc'],
    answers: { 'kube.connect': fail('stat /case/kc: no such file or directory') },
    phase: 'run.clients',
    message: golden('kubeconfig-missing'),
  },
  'a bootstrap kubeconfig that is not there': {
    argv: ['--kubeconfig=/case/kc', '--bootstrap-kubeconfig=/case/boot'],
    answers: {
      'certificate.checkKubeconfig': ok({ isValid: false, problem: '' }),
      'kube.connect': fail('stat /case/boot: no such file or directory'),
    },
    phase: 'run.clients',
    message: golden('kubeconfig-bootstrap-missing'),
  },
  'a watchdog whose settings cannot be understood': {
    answers: { 'host.watchdogSettings': ok({ usec: 'soon', pid: '', ownPid: 7 }) },
    phase: 'run.watchdog',
    message: run(
      'create health checker: configure watchdog: error converting WATCHDOG_USEC: strconv.Atoi: parsing "soon": ' +
        'invalid syntax',
    ),
  },
  'a watchdog that wants a word each half of a second': {
    answers: { 'host.watchdogSettings': ok({ usec: '1000000', pid: '', ownPid: 7 }) },
    phase: 'run.watchdog',
    message: run('create health checker: configure watchdog timeout too small: 1s'),
  },
  'authorities of clients that are not there': {
    argv: ['--client-ca-file=/does/not/exist'],
    answers: {
      'host.readFile': (input: { path: string }) =>
        ok({ content: input.path === '/does/not/exist' ? null : 'nameserver 192.0.2.1\n' }),
    },
    phase: 'run.clientCA',
    message: golden('flag-one-client-ca-file-eq--does-not-exist'),
  },
  'authorities of clients that are none': {
    argv: ['--client-ca-file=/case/ca.crt'],
    answers: { 'host.readFile': ok({ content: 'not a certificate' }) },
    phase: 'run.clientCA',
    message: golden('val-authn-x509-bad-ca'),
  },
  'options of the CPU manager that are unknown': {
    argv: FILE,
    answers: {
      'host.readConfiguration': ok(
        document({ cpuManagerPolicy: 'static', reservedSystemCPUs: '0', cpuManagerPolicyOptions: { turbo: 'true' } }),
      ),
    },
    phase: 'command.loadingConfiguration',
    message: golden('val-cpumanager-options-unknown'),
  },
  'control groups that are not there': {
    argv: FILE,
    answers: {
      'host.readConfiguration': ok(document({ cgroupRoot: '/does-not-exist' })),
      'cgroup.missing': ok({ missing: ['/sys/fs/cgroup/does_not_exist.slice'] }),
    },
    phase: 'run.containerManager',
    message: run(
      'invalid configuration: could not read controllers for cgroup ["does-not-exist"]: ' +
        'open /sys/fs/cgroup/does_not_exist.slice/cgroup.controllers: no such file or directory',
    ),
  },
  'webhook authentication without an API server': {
    argv: ['--authentication-token-webhook=true'],
    phase: 'run.auth',
    message: golden('val-authn-webhook-standalone'),
  },
  'webhook authorization without an API server': {
    argv: ['--authorization-mode=Webhook'],
    phase: 'run.auth',
    message: golden('flag-one-authorization-mode-eq-webhook'),
  },
  'an unknown authorization mode': {
    argv: FILE,
    answers: { 'host.readConfiguration': ok(document({ authorization: { mode: 'RBAC' } })) },
    phase: 'run.auth',
    message: golden('val-authz-unknown'),
  },
  'a runtime that does not answer': {
    argv: ['--container-runtime-endpoint=unix:///case/no.sock'],
    answers: {
      'runtime.connect': fail(
        'validate service connection: validate CRI v1 runtime API for endpoint "unix:///case/no.sock": ' +
          `rpc error: code = Unavailable desc = ${noSocket}`,
      ),
    },
    phase: 'run.runtimeService',
    message: golden('runtime-endpoint-missing-socket'),
  },
  'a runtime that three times does not say its cgroup driver': {
    answers: { 'cri.runtimeConfig': fail('runtime returned an unknown cgroup driver 100') },
    phase: 'run.runtimeService',
    message: run('runtime returned an unknown cgroup driver 100'),
  },
  'a default socket that cannot be looked at': {
    answers: { 'runtime.exists': fail('stat /run/containerd: permission denied') },
    phase: 'run.runtimeService',
    message: run('stat /run/containerd: permission denied'),
  },
  'an embedded runtime that does not start': {
    answers: { 'runtime.exists': ok({ exists: false }), 'runtime.startEmbedded': fail('address already in use') },
    phase: 'run.runtimeService',
    message: run('address already in use'),
  },
  'a machine that cannot be read': {
    answers: { 'host.machineInfo': fail('open /proc/meminfo: permission denied') },
    phase: 'run.cadvisor',
    message: run('open /proc/meminfo: permission denied'),
  },
  'swap that is on': {
    answers: { 'host.machineInfo': ok({ ...MACHINE_INFO, swapBytes: '1073741824' }) },
    phase: 'run.containerManager',
    message: run('running with swap on is not supported, please disable swap or set --fail-swap-on flag to false'),
  },
  'cgroups that the container manager cannot read': {
    answers: {
      'host.cgroups': (_, nth) =>
        nth === 0 ? ok({ version: 2, controllers: ['memory'], swapCounted: true }) : fail('input/output error'),
    },
    phase: 'run.containerManager',
    message: run('failed to get mounted cgroup subsystems: input/output error'),
  },
  'a bad --node-ip': {
    argv: ['--node-ip=192.0.2.10,2001:db8::10,192.0.2.11'],
    phase: 'runKubelet.nodeIPs',
    message: golden('flag-node-ip-three'),
  },
  'addresses that cannot be read': {
    answers: { 'host.addresses': fail('netlink receive: permission denied') },
    phase: 'runKubelet.nodeIPs',
    message: run('netlink receive: permission denied'),
  },
  'a sync frequency that is not positive': {
    argv: ['--sync-frequency=-5s'],
    phase: 'command.loadingConfiguration',
    message: golden('flag-one-sync-frequency-eq--5s'),
  },
  'no root directory': {
    argv: ['--root-dir='],
    phase: 'runKubelet.rootDirectory',
    message: golden('flag-one-root-dir-eq-empty'),
  },
  'a root directory that cannot be made': {
    answers: { 'host.makeDirectories': fail("mkdir '/var/lib/kubelet': read-only file system", 'EROFS') },
    phase: 'startKubelet.initializingModules',
    message: run("mkdir '/var/lib/kubelet': read-only file system"),
  },
};

const lastState = (node: BootNode): StateRecord | undefined =>
  node.records.filter((record) => record.k === 'state').findLast(({ at }) => at === 'kubelet');

describe('a step that upstream calls fatal', () => {
  it.each(Object.entries(FATAL))('%s', (_, { argv = ARGV, answers = {}, phase, message }) => {
    const feed = new KernelFeed({ now: () => node.world.time.now() });
    const node: BootNode = new BootNode({ argv, answers, onTurn: feed.onTurn }).boot().run(BOOT_MS);
    const failure = { phase, message, exitCode: 1 };
    const view = feed.phases();
    expect(answerOf(view, view.now)).toMatchObject({
      kind: 'failed',
      text: expect.stringContaining(` in ${phase}: ${message}`),
    });
    expect(node.ended).toMatchObject({ exitCode: 1, failure });
    expect(node.lines().at(-1)).toMatchObject({
      at: 'kubelet',
      level: 'error',
      text: 'command failed',
      fields: { err: message },
    });
    expect(lastState(node)).toMatchObject({ value: 'failed', status: 'done' });
    const turns = node.kernel.turn;
    node.run(BOOT_MS);
    expect(node.kernel.turn, 'nothing goes on').toBe(turns);
    expect(node.crashes()).toEqual([]);
    expect(node.replay().divergence).toBeNull();
  });

  it('comes before anything that later steps would do to the machine', () => {
    const changes = ['host.acquireLock', 'host.setOomScoreAdj', 'host.setOpenFilesLimit', 'host.makeDirectories'];
    for (const [name, { argv = ARGV, answers = {}, phase }] of Object.entries(FATAL)) {
      if (!phase.startsWith('command.')) continue;
      const node = new BootNode({ argv, answers }).boot().run(BOOT_MS);
      expect(
        node.effects().filter((effect) => changes.includes(effect.name)),
        name,
      ).toEqual([]);
    }
  });

  it('is said twice when the modules of the kubelet cannot be set up: what failed, and that the node ends', () => {
    const { answers = {} } = FATAL['a root directory that cannot be made']!;
    const lines = new BootNode({ answers }).boot().run(BOOT_MS).lines('error');
    expect(lines.map(({ text }) => text)).toEqual(['Failed to initialize internal modules', 'command failed']);
    const events = new BootNode({ answers })
      .boot()
      .run(BOOT_MS)
      .lines()
      .filter(({ text }) => text === 'Event occurred');
    expect(events.at(-1)).toMatchObject({
      fields: { reason: 'KubeletSetupFailed', type: 'Warning', object: 'node-1' },
    });
  });
});

interface Harmless {
  readonly answers: Answers;
  readonly logged: string;
}

const HARMLESS: Readonly<Record<string, Harmless>> = {
  'a user that is not root': {
    answers: { 'host.permissions': ok({ uid: 1_000 }) },
    logged: 'kubelet running with insufficient permissions',
  },
  'a user that cannot be told': {
    answers: { 'host.permissions': fail('no such process') },
    logged: 'kubelet running with insufficient permissions',
  },
  'an OOM score that may not be set': {
    answers: { 'host.setOomScoreAdj': fail('write /proc/self/oom_score_adj: permission denied') },
    logged: 'Failed to ApplyOOMScoreAdj',
  },
  'a limit of open files that may not be set': {
    answers: { 'host.setOpenFilesLimit': fail('operation not permitted') },
    logged: 'Failed to set rlimit on max file handles',
  },
  'a resolv.conf that cannot be read': {
    answers: {
      'host.readFile': (input: { path: string }) =>
        input.path === '/etc/resolv.conf' ? fail('permission denied') : ok({ content: '' }),
    },
    logged: 'Could not open resolv conf file',
  },
  'a hosts file that cannot be read': {
    answers: {
      'host.readFile': (input: { path: string }) =>
        input.path === '/etc/hosts' ? fail('permission denied') : ok({ content: '' }),
    },
    logged: 'Could not read the hosts file',
  },
  'a folder of container logs that cannot be made': {
    answers: { 'host.makeDirectories': (_, nth) => (nth === 0 ? ok(null) : fail('permission denied')) },
    logged: 'Failed to create the folder of container log links',
  },
  'a service manager that does not listen': {
    answers: { 'host.notify': fail('connection refused') },
    logged: 'Failed to notify the service manager',
  },
  'a healthz port that is taken': {
    answers: { 'server.healthz': fail('listen tcp 127.0.0.1:10248: bind: address already in use') },
    logged: 'Failed to start healthz server',
  },
};

describe('a step that upstream only logs', () => {
  it.each(Object.entries(HARMLESS))('%s', (_, { answers, logged }) => {
    const node = new BootNode({ answers }).boot().run(2_000);
    expect(node.ended).toBeNull();
    expect(node.state()).toMatchObject({
      alive: { startup: { startKubelet: { kubeletRun: { synchronizing: 'up' }, serving: 'blocked' } } },
    });
    expect(node.state('kubelet/syncLoop')).toBe('syncing');
    const lines = node.lines().filter(({ text }) => text === logged);
    expect(lines).toHaveLength(1);
    expect(['warn', 'error']).toContain(lines[0]!.level);
    expect(node.crashes()).toEqual([]);
    expect(node.replay().divergence).toBeNull();
  });

  it.each<[string, Record<string, string | string[]>, string]>([
    ['a cluster DNS that is no address', { clusterDNS: ['10.0.0.10', 'dns.example'] }, 'Invalid clusterDNS IP'],
    [
      'a cgroup of the kubelet that is not the reserved one',
      { kubeletCgroups: '/kubelet.slice', kubeReservedCgroup: '/reserved' },
      'unsupported configuration:KubeletCgroups is not within KubeReservedCgroup',
    ],
  ])('%s', (_, fields, logged) => {
    const argv = ['--config=/case/kubelet.yaml'];
    const start = (given: Record<string, string | string[]>) =>
      new BootNode({ argv, answers: { 'host.readConfiguration': ok(document({ ...given })) } }).boot().run(2_000);
    const texts = (node: BootNode) => node.lines().filter(({ text }) => text === logged);
    const node = start(fields);
    expect(node.ended).toBeNull();
    expect(texts(node)).toHaveLength(1);
    expect(texts(start({}))).toEqual([]);
    expect(node.kernel.snapshotOf('kubelet')).toMatchObject({
      context: { settings: { clusterDNS: fields['clusterDNS'] ? ['10.0.0.10'] : [] } },
    });
  });

  it('names the user in the words of the kubelet', () => {
    const node = new BootNode({ answers: { 'host.permissions': ok({ uid: 1_000 }) } }).boot().run(2_000);
    expect(node.lines('warn').map(({ fields }) => fields?.['err'])).toContain(
      'kubelet needs to run as uid `0`. It is being run as 1000',
    );
  });

  it('is tried again where upstream tries again: the healthz port each five seconds', () => {
    const answers: Answers = { 'server.healthz': (_, nth) => (nth < 2 ? fail('address already in use') : 'stream') };
    const node = new BootNode({ answers }).boot().run(4_000);
    expect(node.effects('server.healthz')).toHaveLength(1);
    node.run(2_000);
    expect(node.effects('server.healthz')).toHaveLength(2);
    node.run(5_000);
    expect(node.effects('server.healthz')).toHaveLength(3);
    expect(node.state('kubelet/healthz')).toBe('listening');
  });

  it('does not matter where the configuration already answers it: a host name that was given', () => {
    const answers: Answers = { 'host.hostname': fail('permission denied') };
    const node = new BootNode({ argv: [...ARGV, '--hostname-override=node-7'], answers }).boot().run(2_000);
    expect(node.ended).toBeNull();
    expect(node.kernel.snapshotOf('kubelet')).toMatchObject({ context: { node: { nodeName: 'node-7' } } });
  });

  it('is a runtime that does not name its cgroup driver: the configuration has one', () => {
    const answers: Answers = { 'cri.runtimeConfig': ok({ cgroupDriver: null }) };
    const node = new BootNode({ answers }).boot().run(2_000);
    expect(node.kernel.snapshotOf('kubelet')).toMatchObject({ context: { settings: { cgroupDriver: 'cgroupfs' } } });
  });

  it('is a machine without a runtime: the embedded one is used, and said', () => {
    const node = new BootNode({ answers: { 'runtime.exists': ok({ exists: false }) } }).boot().run(2_000);
    expect(node.ended).toBeNull();
    expect(node.effects('runtime.connect').map(({ input }) => input)).toMatchObject([
      { endpoint: 'unix:///var/lib/kubelet/embedded.sock' },
    ]);
    expect(node.lines('warn').map(({ text }) => text)).toContainEqual(
      expect.stringContaining('No container runtime found; using the embedded runtime'),
    );
  });

  it('is a runtime that was named and is not there: that one is fatal, nothing is put in its place', () => {
    const answers: Answers = { 'runtime.exists': ok({ exists: false }), 'runtime.connect': fail('nobody answers') };
    const node = new BootNode({ argv: ['--container-runtime-endpoint=unix:///run/x.sock'], answers }).boot().run(2_000);
    expect(node.ended).toMatchObject({ exitCode: 1 });
    expect(node.effects('runtime.startEmbedded')).toEqual([]);
  });
});
