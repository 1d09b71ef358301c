/**
 * The recordings of `test/golden/pods` as objects: the applied objects, the kubelet's requests to the runtime, and its
 * statuses of the pods. It compares nothing.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { Container, Pod, PodSpec } from '../../../../src/machines/model/api/pod.ts';
import { withDefaults } from '../../../../src/machines/model/pods/defaults.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import type { References } from '../../../../src/machines/model/spec/environment.ts';

const CASES = join(import.meta.dirname, '../../../golden/pods/cases');

/** A JSON object whose fields are defined by the recordings, not by types. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Recorded = any;

export interface Call {
  readonly at: number;
  readonly ms: number;
  readonly method: string;
  readonly request: Recorded;
  readonly code: number;
  readonly message?: string;
  readonly response: Recorded;
}

export interface StatusLine {
  readonly at: number;
  readonly pod: string;
  readonly event: string;
  readonly generation?: number;
  readonly deletionTimestamp?: string;
  readonly status: Recorded;
}

export interface Recording {
  readonly name: string;
  /** The objects created at step `apply`, as applied. */
  readonly objects: readonly Recorded[];
  /** The recorder's steps, in order. */
  readonly steps: readonly Recorded[];
  readonly calls: readonly Call[];
  readonly statuses: readonly StatusLine[];
  readonly writes: readonly Recorded[];
  readonly extra: Recorded;
  readonly references: References;
  /** The pod with this uid at a time of the recording, at most in the given generation. */
  readonly podAt: (uid: string, at: number, generation?: number) => Pod | undefined;
  readonly uids: readonly string[];
}

/** The node of the recordings: settings from their README, capacity from the tables of facts.md. */
export const node: NodeSettings = {
  behavior: NEWEST_BEHAVIOR,
  nodeName: 'node1',
  hostname: 'node1',
  nodeIPs: ['<node-ip>'],
  rootDir: '${ROOT}',
  podLogsDir: '${LOGS}',
  containerLogsDir: '/var/log/containers',
  staticPodPath: '${STATIC}',
  fileCheckFrequencyMs: 5_000,
  syncFrequencyMs: 60_000,
  runtimeName: 'containerd',
  cgroupRoot: '/golden',
  cgroupDriver: 'cgroupfs',
  cgroupsPerQOS: true,
  cpuCFSQuota: true,
  cpuCFSQuotaPeriodUs: 100_000,
  podPidsLimit: -1,
  seccompDefault: false,
  clusterDNS: ['10.96.0.10'],
  clusterDomain: 'cluster.local',
  resolver: { nameservers: ['192.0.2.53'], searches: ['example.test'], options: ['ndots:2'] },
  hostsFile: '127.0.0.1\tlocalhost\n',
  serializeImagePulls: false,
  maxParallelImagePulls: 0,
  registryPullQPS: 5,
  registryBurst: 10,
  crashLoopBackOffMaxMs: 300_000,
  memoryCapacityBytes: '25276514304',
  cpuCapacityMilli: 2_000,
  cgroupVersion: 1,
  swapControllerAvailable: true,
  hugePageSizes: ['2MB', '1GB'],
  allocatable: { cpu: '2', memory: '25171656704' },
  maxPods: 110,
  containerGc: { minAgeMs: 0, maxPerPodContainer: 1, maxContainers: -1 },
  imageGc: { highThresholdPercent: 100, lowThresholdPercent: 80, minAgeMs: 120_000, maxAgeMs: 0 },
  softStateFile: '${ROOT}/statelet.json',
  relistPeriodMs: 1_000,
};

/** A recording without objects is about the node, not about pods. */
const showsPods = (name: string): boolean => existsSync(join(CASES, name, 'objects.yaml'));

export const recordings: readonly Recording[] = readdirSync(CASES).filter(showsPods).toSorted().map(read);

function read(name: string): Recording {
  const file = (part: string): string => join(CASES, name, part);
  const objects: readonly Recorded[] = parseAllDocuments(readFileSync(file('objects.yaml'), 'utf8'))
    .map((document) => document.toJSON() as unknown)
    .filter((object) => object !== null);
  const steps: readonly Recorded[] = JSON.parse(readFileSync(file('steps.json'), 'utf8'));
  const pods = new Map<string, (at: number, generation?: number) => Pod>();
  for (const object of objects.filter(({ kind }) => kind === 'Pod')) {
    pods.set(`<uid:${object.metadata.name}>`, (at, generation) => apiPod(object, steps, at, generation));
  }
  const manifests = steps.filter(({ staticWrite }) => staticWrite !== undefined);
  for (const [index, { object }] of manifests.entries()) {
    const uid = index === 0 ? '<uid:static>' : `<uid:static:${index + 1}>`;
    pods.set(uid, () => staticPod(object, uid));
  }
  return {
    name,
    objects,
    steps,
    calls: lines(file('cri.ndjson')),
    statuses: lines(file('status.ndjson')),
    writes: lines(file('api.ndjson')),
    extra: existsSync(file('extra.json')) ? JSON.parse(readFileSync(file('extra.json'), 'utf8')) : {},
    references: references(objects, steps),
    podAt: (uid, at, generation) => pods.get(uid)?.(at, generation),
    uids: [...pods.keys()],
  };
}

function lines(path: string): readonly Recorded[] {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, 'utf8').split('\n');
  return text.filter((line) => line !== '').map((line) => JSON.parse(line));
}

function apiPod(object: Recorded, steps: readonly Recorded[], at: number, generation = Infinity): Pod {
  const { name, namespace, labels, annotations } = object.metadata;
  const known = steps.filter((step) => step.at <= at && isSpecPatch(step, name));
  const patches = known.slice(0, Math.max(generation - 1, 0));
  const spec = patches.reduce<PodSpec>((before, { body }) => patched(before, body.spec), object.spec);
  return {
    metadata: {
      name,
      namespace,
      uid: `<uid:${name}>`,
      generation: 1 + patches.length,
      ...(labels === undefined ? {} : { labels }),
      annotations: {
        ...annotations,
        'kubernetes.io/config.seen': '<time>',
        'kubernetes.io/config.source': 'api',
      },
    },
    spec: withDefaults(spec),
  };
}

const isSpecPatch = (step: Recorded, name: string): boolean =>
  (step.patch === `Pod/${name}` || step.patchSub === `${name}/resize`) && step.body.spec !== undefined;

/** A strategic merge of containers by name, which suffices for the recorded patches. */
function patched(spec: PodSpec, change: { readonly containers: readonly Container[] }): PodSpec {
  return {
    ...spec,
    containers: spec.containers.map((container) => {
      const own = change.containers.find(({ name }) => name === container.name);
      return own === undefined ? container : deepMerge(container, own);
    }),
  };
}

function deepMerge(base: Recorded, change: Recorded): Recorded {
  const merged = { ...base };
  for (const [key, value] of Object.entries(change)) {
    const known = merged[key];
    const isObject = typeof value === 'object' && value !== null && typeof known === 'object';
    merged[key] = isObject ? deepMerge(known, value) : value;
  }
  return merged;
}

/** A static pod has the node in its name, its uid in an annotation, and tolerations for everything. */
function staticPod(object: Recorded, uid: string): Pod {
  return {
    metadata: {
      name: `${object.metadata.name}-node1`,
      namespace: object.metadata.namespace,
      uid,
      labels: object.metadata.labels,
      annotations: {
        'kubernetes.io/config.hash': uid,
        'kubernetes.io/config.seen': '<time>',
        'kubernetes.io/config.source': 'file',
      },
    },
    spec: withDefaults({ ...object.spec, nodeName: 'node1' }),
  };
}

function references(objects: readonly Recorded[], steps: readonly Recorded[]): References {
  const created = steps.flatMap(({ create }) => (create === undefined ? [] : [create]));
  const contents = (kind: string): Record<string, Record<string, string>> =>
    Object.fromEntries(
      [...objects, ...created]
        .filter((object) => object.kind === kind)
        .map((object) => [object.metadata.name, text(object)]),
    );
  return { configMaps: contents('ConfigMap'), secrets: contents('Secret') };
}

function text({ kind, data = {}, stringData = {} }: Recorded): Record<string, string> {
  if (kind === 'ConfigMap') return data;
  const decoded = Object.entries<string>(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]);
  return { ...Object.fromEntries(decoded), ...stringData };
}
