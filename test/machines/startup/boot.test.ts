/**
 * A standalone start of the real supervisor, compared with the five documents and with its own chart, and replayed from
 * the beginning and from checkpoints.
 */
import { describe, expect, it } from 'vitest';
import { SeededRandom } from '../../../src/kernel/purity.ts';
import type { HeaderRecord, KernelRecord } from '../../../src/kernel/records.ts';
import { replay } from '../../../src/kernel/replay.ts';
import type { DesiredCgroup } from '../../../src/machines/model/operations/cgroup.ts';
import { kubeletMachine } from '../../../src/machines/startup/kubelet.ts';
import { nodeBefore } from '../charts/pods/support.ts';
import { ARGV, BootNode, type BootOptions, document, MACHINE_INFO, ok } from './boot-node.ts';
import {
  CONTRADICTIONS,
  checkOrder,
  DOCUMENTS,
  missingSteps,
  NOT_IN_RUN_ONCE,
  type Promised,
  STEP_NAMES,
  stepsTaken,
} from './order/index.ts';

const BOOT_MS = 5_000;
const boot = (options?: BootOptions) => new BootNode(options).boot().run(BOOT_MS);

/** Every conditional step happens: a file, a lock with contention, healthz, both servers. */
const COMPLETE = [
  ...ARGV,
  '--config=/etc/kubelet.yaml',
  '--lock-file=/run/lock',
  '--exit-on-lock-contention',
  '--read-only-port=10255',
];
/** Subsystems that have no work without an API server. */
const CLUSTER_ONLY = [
  'clientCertificate',
  'servingCertificate',
  'objects',
  'mirrorPods',
  'rememberedPods',
  'nodeStatus',
  'lease',
  'podCIDR',
  'csiNode',
  'csiVolumes',
];
/** Runs the pods of the folder, which is empty here, and ends. */
const ONCE: BootOptions = { argv: COMPLETE, runOnce: { retries: 3 } };
const BOOTS: readonly (readonly [name: string, argv: readonly string[]])[] = [
  ['with nothing but a folder of pods', ARGV],
  ['with file, lock and healthz', COMPLETE],
  ['without healthz', [...ARGV, '--healthz-port=0']],
  ['with no pods at all', []],
];

const WEB = {
  file: '/etc/kubernetes/manifests/web.yaml',
  uid: 'web',
  value: {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web' },
    spec: { containers: [{ name: 'app', image: 'app:1' }] },
  },
};

describe('a standalone boot', () => {
  it.each(BOOTS)('%s synchronises pods and blocks', (_, argv) => {
    const node = boot({ argv });
    expect(node.state()).toMatchObject({
      alive: {
        startup: { startKubelet: { kubeletRun: { synchronizing: 'up' }, serving: 'blocked' } },
        containerManager: 'running',
      },
    });
    expect(node.state('kubelet/syncLoop')).toBe('syncing');
    expect(node.state('kubelet/containerManager')).toHaveProperty('running');
    expect(node.ended).toBeNull();
    expect(node.crashes()).toEqual([]);
    expect(node.lines('error')).toEqual([]);
  });

  it.each([undefined, { retries: 3 }])(
    'gives the runtime the configured addresses of pods, run once: %j',
    (runOnce) => {
      const argv = [...ARGV, '--pod-cidr=10.3.0.0/24'];
      const node = boot({ argv, answers: { 'cri.updateRuntimeConfig': ok(null) }, ...(runOnce ? { runOnce } : {}) });
      expect(node.effects('cri.updateRuntimeConfig').map(({ input }) => input)).toEqual([{ podCIDR: '10.3.0.0/24' }]);
    },
  );

  it('makes no group of a pod before those of the node are there', () => {
    const groupsOf = (ofNode: 'hangs' | ReturnType<typeof ok>) => {
      const ensure = ({ path }: { path: string }) => (path === '/kubepods.slice' ? ofNode : ok(null));
      const node = new BootNode({ argv: [...ARGV, '--cgroup-driver=systemd'], answers: { 'cgroup.ensure': ensure } });
      node.world.pods.setManifests([WEB]);
      node.boot().run(BOOT_MS);
      return node.effects('cgroup.ensure').map(({ input }) => (input as { path: string }).path);
    };
    expect(groupsOf('hangs')).toEqual(['/kubepods.slice']);
    expect(groupsOf(ok(null)).at(-1)).toMatch(/-pod\w+\.slice$/);
  });

  it.each([
    ['without a CPU manager', [], '0-1'],
    ['unless a CPU manager gives them out', ['--cpu-manager-policy=static', '--kube-reserved=cpu=500m'], undefined],
  ])('gives the group of all pods the CPUs of the machine, %s', (_, flags, cpus) => {
    const online = [1, 0].map((id) => ({ id, core: id, socket: 0, numaNode: 0 }));
    const machine = { ...MACHINE_INFO, cores: 2, topology: { ...MACHINE_INFO.topology, cpus: online } };
    const node = boot({ argv: [...ARGV, ...flags], answers: { 'host.machineInfo': ok(machine) } });
    const [all] = node.effects('cgroup.ensure').map(({ input }) => input as DesiredCgroup);
    expect(all).toMatchObject({ path: '/kubepods.slice', resources: { memoryBytes: expect.any(String) } });
    expect(all?.resources.cpus).toBe(cpus);
  });

  it.each([true, false])('shares mounts with containers where the runtime has any: %s', (exists) => {
    const [data] = boot({ answers: { 'runtime.exists': ok({ exists }) } }).effects('host.makeDirectories');
    const { directories } = data!.input as { directories: { path: string; shared?: true }[] };
    expect(directories.filter(({ shared }) => shared).map(({ path }) => path)).toEqual(
      exists ? ['/var/lib/kubelet'] : [],
    );
  });

  it('tells that secrets may reach a disk where the machine swaps and a tmpfs cannot be kept from it', () => {
    const events = (noswap: object) =>
      boot({
        argv: [...ARGV, '--fail-swap-on=false'],
        answers: { 'host.machineInfo': ok({ ...MACHINE_INFO, swapBytes: '4096', ...noswap }) },
      })
        .lines()
        .flatMap(({ text, fields }) => (text === 'Event occurred' ? [fields?.['reason']] : []));
    expect(events({ noswap: false }).slice(0, 2)).toEqual(['PossibleMemoryBackedVolumesOnDisk', 'Starting']);
    expect(events({})).not.toContain('PossibleMemoryBackedVolumesOnDisk');
  });

  it('starts every subsystem that it has work for, each under its own address', () => {
    const node = boot({ argv: COMPLETE });
    const regions = (node.state() as { alive: Record<string, unknown> }).alive;
    const absent = Object.keys(regions).filter((id) => regions[id] === 'absent');
    expect(
      absent.filter((id) => !CLUSTER_ONLY.includes(id)),
      'the other path to the pods, and a graceful end without a request',
    ).toEqual(['runOnce', 'shutdown']);
    for (const id of Object.keys(regions).filter((name) => name !== 'startup' && !absent.includes(name))) {
      expect(node.kernel.addresses).toContain(`kubelet/${id}`);
    }
  });

  it('says its configuration when asked to say much, without its credentials', () => {
    const header = { Authorization: ['Bearer secret'] };
    const answers = {
      'host.readConfiguration': ok(document({ logging: { verbosity: 5 }, staticPodURLHeader: header })),
    };
    const found = boot({ argv: ['--config=/k'], answers }).lines('debug');
    const dump = found.find(({ text }) => text === 'KubeletConfiguration');
    expect(dump?.fields?.['configuration']).toMatchObject({ staticPodURLHeader: { Authorization: ['<masked>'] } });
    expect(
      boot()
        .lines('debug')
        .map(({ text }) => text),
    ).not.toContain('KubeletConfiguration');
  });

  it('warns of MemoryQoS where there is no cgroup v2', () => {
    const argv = [...ARGV, '--feature-gates=MemoryQoS=true', '--fail-cgroupv1=false'];
    const cgroups = (version: 1 | 2) => ({
      'host.cgroups': ok({ version, controllers: ['cpu', 'cpuset', 'memory', 'pids'], swapCounted: false }),
    });
    const warnings = (version: 1 | 2) =>
      boot({ argv, answers: cgroups(version) })
        .lines('warn')
        .map(({ text }) => text);
    const text = 'Warning: MemoryQoS feature only works with cgroups v2 on Linux, but enabled with cgroups v1';
    expect(warnings(1)).toContain(text);
    expect(warnings(2)).not.toContain(text);
  });

  it.each([
    ['5.8.0-63-generic', {}, { currentKernel: '5.8.0-63-generic', minimumKernel: '5.9' }],
    ['5.8.0', { behavior: nodeBefore('podDetailsAsKubelet') }, null],
    ['5.9.0', {}, null],
  ])('warns of MemoryQoS on kernels that may stop processes with it: %s', (kernelVersion, more, expected) => {
    const answers = { 'host.machineInfo': ok({ ...MACHINE_INFO, kernelVersion }) };
    const text = 'Warning: MemoryQoS memory.high throttling may cause process livelock on older kernels';
    const argv = [...ARGV, '--feature-gates=MemoryQoS=true'];
    const found = boot({ argv, answers, ...more })
      .lines('warn')
      .find((each) => each.text === text);
    expect(found?.fields ?? null).toEqual(expected);
  });

  it('tells the service manager once that it is ready, and only when the kubelet was created', () => {
    const notices = boot().effects('host.notify');
    expect(notices.map(({ input }) => input)).toEqual([{ state: 'READY=1' }]);
  });
});

describe('the order of the documents', () => {
  const orders = DOCUMENTS.map((document) => [document.key, document.title, document.promises] as const);

  it.each(BOOTS)('a boot %s takes every step that it must', (_, argv) => {
    expect(missingSteps(boot({ argv }).records)).toEqual([]);
  });

  it('a boot with everything takes every step there is, and one that runs its pods once the rest', () => {
    const complete = [...stepsTaken(boot({ argv: COMPLETE }).records).keys()];
    const once = [...stepsTaken(boot(ONCE).records).keys()];
    expect([...new Set([...complete, ...once])].sort()).toEqual([...STEP_NAMES].sort());
    expect(missingSteps(boot(ONCE).records)).toEqual(NOT_IN_RUN_ONCE);
  });

  const all = [...BOOTS.map(([name, argv]) => [name, { argv }] as const), ['that runs its pods once', ONCE] as const];
  describe.each(all)('of a boot %s', (_, options: BootOptions) => {
    const { records } = boot(options);
    it.each(orders)('is that of %s: %s', (_key, _title, promises) => {
      expect(checkOrder(records, promises).map(textOf)).toEqual([]);
    });
    it('is what was decided where they disagree', () => {
      for (const { question, kept } of CONTRADICTIONS)
        expect(checkOrder(records, kept).map(textOf), question).toEqual([]);
    });
  });

  it('is seen when it is broken: each promise fails against the same records in reverse', () => {
    const reversed = [{ argv: COMPLETE }, ONCE].map((options) => {
      const { records } = boot(options);
      return records.map((record, i) => ({ ...record, n: records.length - i }));
    });
    for (const { key, promises } of DOCUMENTS) {
      const broken = new Set(
        reversed.flatMap((records) => checkOrder(records, promises)).map(({ promise }) => promise),
      );
      expect(
        promises.filter((promise) => !broken.has(promise)),
        `document ${key}`,
      ).toEqual([]);
    }
  });

  it('is seen when a step is left out', () => {
    const records = boot().records.filter((record) => record.k !== 'effect' || record.name !== 'host.setOomScoreAdj');
    const violations = checkOrder(records, DOCUMENTS[1]!.promises).filter(({ before }) => before === null);
    expect(violations.map(textOf)).toEqual([
      'the OOM score is applied (never) before node addresses are resolved (S116)',
    ]);
  });

  it('has no document that promises nothing or says the same twice', () => {
    for (const { key, promises } of DOCUMENTS) {
      const pairs = promises.map(({ before, after, row }) => `${before} < ${after} ${row}`);
      expect(new Set(pairs).size, `document ${key}`).toBe(pairs.length);
      expect(pairs.length, `document ${key}`).toBeGreaterThan(15);
    }
    const named = new Set(
      DOCUMENTS.flatMap(({ promises }) => promises.flatMap(({ before, after }) => [before, after])),
    );
    const decided = new Set(CONTRADICTIONS.flatMap(({ kept }) => kept.flatMap(({ before, after }) => [before, after])));
    const ours = STEP_NAMES.filter((name) => !named.has(name) && !decided.has(name));
    expect(ours, 'steps that no document names').toEqual(['the resolver file is read', 'the runtime is waited for']);
  });
});

function textOf({ promise, before }: { promise: Promised; before: number | null }): string {
  const when = before === null ? 'never' : `record ${before}`;
  return `${promise.before} (${when}) before ${promise.after} (${promise.row})`;
}

interface Phase {
  readonly id: string;
  readonly type: string;
  readonly meta?: { readonly steps?: string; readonly waitsFor?: string };
  readonly states: Readonly<Record<string, Phase>>;
}

describe('the phases', () => {
  const startup = kubeletMachine.states['alive']!.states['startup'] as unknown as Phase;
  const leaves = (phase: Phase): Phase[] => {
    const children = Object.values(phase.states);
    return children.length === 0 ? [phase] : children.flatMap(leaves);
  };
  const phases = leaves(startup).filter(({ type }) => type !== 'final');

  it.each(phases.map((phase) => [phase.id, phase] as const))(
    '%s says what it does or what it waits for',
    (_, phase) => {
      const found = phase.meta ?? ownersMeta(startup, phase.id);
      expect(found?.steps ?? found?.waitsFor).toMatch(/\S/);
    },
  );

  it('name rows that exist', () => {
    const rows = phases.flatMap(({ meta }) => meta?.steps?.match(/S\d{3}/g) ?? []);
    expect(rows.length).toBeGreaterThan(40);
    for (const row of rows) expect(Number(row.slice(1))).toBeLessThanOrEqual(244);
  });

  it('that need an answer from elsewhere say whose', () => {
    const waiting = phases.filter((phase) => Object.keys((phase as { invoke?: object[] }).invoke ?? []).length > 0);
    expect(waiting.length).toBeGreaterThan(10);
    for (const { id, meta } of waiting) expect(meta?.waitsFor, id).toMatch(/\S/);
  });
});

/** The metadata of the nearest state above. */
function ownersMeta(root: Phase, id: string): Phase['meta'] {
  const path = id.split('.').slice(id.split('.').indexOf('startup') + 1);
  let phase = root;
  let meta = root.meta;
  for (const name of path) {
    phase = phase.states[name]!;
    meta = phase.meta ?? meta;
  }
  return meta;
}

describe('the journal of a boot', () => {
  it.each(BOOTS)('%s replays to the last record', (_, argv) => {
    const node = boot({ argv });
    const report = node.replay();
    expect(report.divergence).toBeNull();
    expect(report.turns).toBe(node.kernel.turn);
  });

  it('replays from a checkpoint at any turn', () => {
    const checkpoints: { at: number; checkpoint: ReturnType<BootNode['kernel']['checkpoint']> }[] = [];
    const node = boot({
      argv: COMPLETE,
      onTurn: (_, kernel) => checkpoints.push({ at: kernel.n, checkpoint: structuredClone(kernel.checkpoint()) }),
    });
    const random = new SeededRandom(20_260);
    const header = node.records[0] as HeaderRecord;
    for (let i = 0; i < 12; i++) {
      const { at, checkpoint } = checkpoints[Math.floor(random.next() * (checkpoints.length - 1))]!;
      const records: readonly KernelRecord[] = node.records.slice(at);
      const report = replay({ machine: kubeletMachine, records, from: { checkpoint, header } });
      expect(report.divergence, `from record ${at}`).toBeNull();
      expect(report.records, `from record ${at}`).toBe(records.length);
    }
  });

  it('shows where another world parts from it', () => {
    const { records } = boot();
    const other = structuredClone(records) as KernelRecord[];
    const at = other.findIndex((record) => record.k === 'result' && record.name === 'host.hostname');
    Object.assign(other[at]!, { output: { hostname: 'another' } });
    const { divergence } = replay({ machine: kubeletMachine, records: other });
    expect(divergence).toMatchObject({ kind: 'different', input: { n: at } });
  });
});
