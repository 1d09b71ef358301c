/**
 * The families of metrics that users of a kubelet rely on: names, types and labels as recorded; each missing family has
 * a reason.
 */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toProtobuf } from '../../../../src/actors/server/endpoints/metrics.ts';
import { type Family, toText } from '../../../../src/actors/server/metrics/instruments.ts';
import type { NodeMetrics } from '../../../../src/actors/server/metrics/node-metrics.ts';
import { podGauges } from '../../../../src/actors/server/metrics/pods/pod-gauges.ts';
import type { NodePod } from '../../../../src/actors/server/node-pods.ts';
import { NOT_HERE } from '../../../golden/http-metrics-excused.ts';
import { temporaryFolder } from '../../../support/host-ports.ts';
import { golden } from '../golden-records.ts';
import { API_SERVER, type MeasuredNode, measuredNode } from '../metrics-node.ts';

interface RecordedFamily {
  readonly name: string;
  readonly type: Family['type'];
  readonly stability: string | null;
  readonly help: string | null;
  readonly labels: readonly string[];
  readonly timestamps?: boolean;
}

const recorded = (
  JSON.parse(golden('metrics-families.json')) as {
    endpoints: Record<string, { families: readonly RecordedFamily[] }>;
  }
).endpoints;
/** Labels that appear only on a machine or container that this test does not have. */
const SAMPLED: Readonly<Record<string, keyof NodeMetrics>> = {
  '/metrics': 'node',
  '/metrics/cadvisor': 'cadvisor',
  '/metrics/resource': 'resource',
  '/metrics/probes': 'probes',
  '/metrics/slis': 'slis',
};
const DOCUMENT = new URL('../../../../docs/node-api.md', import.meta.url);
const reasonOf = (name: string): string | undefined => NOT_HERE.find(({ families }) => families.test(name))?.reason;

let node: MeasuredNode;

beforeAll(async () => {
  node = await measuredNode();
});

afterAll(() => node.close());

const labelsOf = ({ samples }: Family): string[] =>
  [...new Set(samples.flatMap(({ labels }) => Object.keys(labels)))].toSorted();

/** The differences of a family from its recording. */
function faults(wanted: RecordedFamily, family: Family): string[] {
  const { name, type, labels, stability, help, timestamps = false } = wanted;
  const missing = labels.filter((label) => !labelsOf(family).includes(label));
  const text = `${stability === null ? '' : `[${stability}] `}${help ?? ''}`;
  const isTimed = family.samples.every(({ timestampMs }) => timestampMs !== undefined);
  return [
    ...(family.type === type ? [] : [`${name} is a ${family.type}, not a ${type}`]),
    ...(missing.length === 0 ? [] : [`${name} lacks ${missing.join(', ')}`]),
    ...(family.help === text ? [] : [`${name}: ${family.help} / ${text}`]),
    ...(isTimed === timestamps ? [] : [`${name} ${isTimed ? 'has' : 'lacks'} times`]),
  ];
}

it('evictions are counted by signal, from the first one on', async () => {
  const counts = async (from: NodeMetrics) => (await from.node()).find(({ name }) => name === 'kubelet_evictions');
  expect(await counts(node.metrics)).toBeUndefined();
  expect(await counts(node.evicting)).toMatchObject({
    type: 'counter',
    samples: [{ labels: { eviction_signal: 'memory.available' }, value: 2 }],
  });
});

describe('families', () => {
  it('that are no counters are not named like one', async () => {
    const misnamed = (await node.metrics.node()).filter(
      ({ name, type }) => name.endsWith('_total') && type !== 'counter',
    );
    expect(misnamed.map(({ name }) => name)).toEqual([]);
  });

  it.each(Object.entries(SAMPLED))('of %s are those that were recorded', async (path, collect) => {
    const here = new Map((await node.metrics[collect]()).map((family) => [family.name, family]));
    const families = recorded[path]!.families;
    const absent = families.map(({ name }) => name).filter((name) => (here.get(name)?.samples.length ?? 0) === 0);
    const wrong = families
      .filter(({ name }) => !absent.includes(name))
      .flatMap((each) => faults(each, here.get(each.name)!));
    expect(wrong).toEqual([]);
    expect(absent.filter((name) => reasonOf(name) === undefined)).toEqual([]);
    const [present, all] = [families.length - absent.length, families.length];
    process.stdout.write(
      `${path}: ${present} of ${all} families as recorded, ${absent.length} listed with a reason, ${wrong.length} wrong\n`,
    );
  });

  it('that are not here are listed for readers, with their number', () => {
    const names = Object.values(recorded).flatMap(({ families }) => families.map(({ name }) => name));
    const rows = NOT_HERE.map(({ families, names: text, reason }) => {
      return `| ${text} | ${names.filter((name) => families.test(name)).length} | ${reason} |`;
    });
    const [, listed = ''] = readFileSync(DOCUMENT, 'utf8').split(
      '| Not here | Families | Why |\n| --- | --- | --- |\n',
    );
    expect(listed.split('\n\n')[0]!.trimEnd().split('\n')).toEqual(rows);
  });

  it('have a reason only when they are not here', async () => {
    const here = (await Promise.all(Object.values(SAMPLED).map((collect) => node.metrics[collect]()))).flat();
    const present = here.filter(({ samples }) => samples.length > 0).map(({ name }) => name);
    const names = Object.values(recorded).flatMap(({ families }) => families.map(({ name }) => name));
    expect(NOT_HERE.filter(({ families }) => !names.some((name) => families.test(name)))).toEqual([]);
    expect(present.filter((name) => names.includes(name) && reasonOf(name) !== undefined)).toEqual([]);
  });
});

describe('numbers', () => {
  const value = async (name: string, labels: Readonly<Record<string, string>> = {}) => {
    const all = [...(await node.metrics.node()), ...(await node.metrics.probes())];
    const samples = all.find((family) => family.name === name)?.samples ?? [];
    return samples.find((sample) => Object.entries(labels).every(([key, text]) => sample.labels[key] === text))?.value;
  };

  it('are what the records say', async () => {
    expect(await value('kubelet_started_pods_total')).toBe(1);
    expect(await value('kubelet_started_containers_total', { container_type: 'container' })).toBe(3);
    expect(await value('kubelet_terminated_containers_total', { exit_code: '3' })).toBe(1);
    expect(await value('kubelet_runtime_operations_total', { operation_type: 'run_podsandbox' })).toBe(1);
    expect(await value('kubelet_desired_pods', { static: 'true' })).toBe(1);
    expect(await value('prober_probe_total', { probe_type: 'Liveness', result: 'successful' })).toBe(1);
    expect(await value('kubelet_http_requests_total', { path: 'pods' })).toBe(1);
    expect(await value('kubelet_http_inflight_requests', { path: 'pods' })).toBe(0);
    expect(await value('kubelet_http_inflight_requests', { path: 'exec' })).toBe(1);
    expect(await value('statelet_turns_total')).toBeGreaterThan(10);
    expect(await value('statelet_turn_duration_seconds', { le: '+Inf' })).toBe(await value('statelet_turns_total'));
    expect(await value('statelet_queue_length')).toBe(0);
  });

  it('of pods are of every kind that there can be, by their way out', () => {
    const [orphan, stopped, refused] = [
      { isOrphan: true, isStopped: false, isRejected: false },
      { isOrphan: false, isStopped: true, isRejected: false },
      { isOrphan: false, isStopped: true, isRejected: true },
    ];
    const file = { 'kubernetes.io/config.source': 'file' };
    const of = (annotations: object | null, ending?: NodePod['ending'], phase?: 'Succeeded' | 'Failed'): NodePod => ({
      uid: 'u',
      namespace: 'default',
      name: 'web',
      status: phase === undefined ? null : { phase },
      runtime: null,
      mounted: [],
      pod: annotations && {
        metadata: { uid: 'u', namespace: 'default', name: 'web', annotations: { ...annotations } },
        spec: { containers: [] },
      },
      ...(ending && { ending }),
    });
    const runtime = { sandboxes: [{ state: 'SANDBOX_READY' }], containers: [] } as unknown as NodePod['runtime'];
    const ended = { ...of({}, undefined, 'Succeeded'), runtime };
    const gauges = podGauges(
      [
        of({}),
        of(file),
        of(file, orphan),
        of({}, stopped),
        of({}, refused),
        of(null, orphan),
        of(file, undefined, 'Failed'),
        ended,
      ],
      1,
    );
    const count = (name: string) =>
      gauges
        .find((family) => family.name === name)!
        .samples.map(({ labels, value: n }) => [...Object.values(labels), n]);
    const rows = count('kubelet_working_pods');
    expect(rows).toHaveLength(15);
    expect(rows.filter((row) => row.at(-1) !== 0)).toEqual([
      ['desired', 'sync', '', 1],
      ['desired', 'sync', 'true', 1],
      ['desired', 'terminating', '', 1],
      ['orphan', 'terminating', 'true', 1],
      ['runtime_only', 'terminating', 'unknown', 1],
      ['desired', 'terminated', '', 1],
      ['desired', 'terminated', 'true', 1],
    ]);
    expect(count('kubelet_desired_pods')).toEqual([
      ['true', 2],
      ['', 4],
    ]);
    expect(count('kubelet_active_pods')).toEqual([
      ['true', 1],
      ['', 2],
    ]);
  });

  it('of logs are the room on the disk that their files take', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, '0.log'), 'a line\n');
    const container = { state: 'CONTAINER_RUNNING', metadata: { name: 'c' }, log_path: join(folder, '0.log') };
    const runtime = { sandboxes: [], containers: [container] } as unknown as NodePod['runtime'];
    const pod: NodePod = { uid: 'u', namespace: 'ns', name: 'p', pod: null, status: null, runtime, mounted: [] };
    const logs = podGauges([pod], 0).find(({ name }) => name === 'kubelet_container_log_filesystem_used_bytes');
    const { blocks } = statSync(join(folder, '0.log'));
    expect(logs?.samples[0]?.value).toBe(blocks * 512);
    expect(logs?.samples[0]?.value).not.toBe('a line\n'.length);
  });

  it('of the pod are what was done for it', async () => {
    const infinite = { le: '+Inf' };
    expect(await value('kubelet_pod_worker_start_duration_seconds', infinite)).toBe(1);
    expect(await value('kubelet_pod_worker_duration_seconds', { ...infinite, operation_type: 'create' })).toBe(1);
    expect(await value('kubelet_containers_per_pod_count', infinite)).toBe(1);
    const mounted = { volume_plugin: 'kubernetes.io/empty-dir', operation_name: 'volume_mount', status: 'success' };
    expect(await value('storage_operation_duration_seconds', { ...infinite, ...mounted })).toBe(1);
    const volumes = { plugin_name: 'kubernetes.io/empty-dir' };
    expect(await value('volume_manager_total_volumes', { ...volumes, state: 'actual_state_of_world' })).toBe(1);
    expect(await value('volume_manager_total_volumes', { ...volumes, state: 'desired_state_of_world' })).toBe(1);
    const pulled = { present_locally: 'false', pull_policy: 'ifnotpresent', pull_required: 'true' };
    expect(await value('kubelet_image_manager_ensure_image_requests_total', pulled)).toBe(1);
    expect(await value('kubelet_pod_start_total_duration_seconds', infinite)).toBe(0);
  });

  it('are the same at each scrape where nothing happened', async () => {
    const startOf = async () =>
      (await node.metrics.probes()).find(({ name }) => name === 'process_start_time_seconds')?.samples[0]?.value;
    const first = await startOf();
    expect(first).toBeGreaterThan(1.7e9);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await startOf()).toBe(first);
    const messages = await value('statelet_journal_records_total', { kind: 'message' });
    expect(messages).toBeGreaterThan(10);
    expect(await value('statelet_journal_records_total', { kind: 'message' })).toBe(messages);
  });

  it('of the API server are what its client saw', async () => {
    const labels = { verb: 'GET', host: API_SERVER };
    expect(await value('rest_client_requests_total', { code: '200', method: 'GET' })).toBe(1);
    expect(await value('rest_client_request_duration_seconds', { ...labels, le: '0.025' })).toBe(0);
    expect(await value('rest_client_request_duration_seconds', { ...labels, le: '0.1' })).toBe(1);
    expect(await value('rest_client_response_size_bytes', { ...labels, le: '256' })).toBe(0);
    expect(await value('rest_client_response_size_bytes', { ...labels, le: '1024' })).toBe(1);
  });
});

describe('the exposition', () => {
  const families: Family[] = [
    {
      name: 'b_total',
      help: 'a "help"\nof \\ two lines',
      type: 'counter',
      samples: [{ labels: { x: 'a"\\\n' }, value: 1.5, timestampMs: 9 }],
    },
    {
      name: 'a',
      help: 'h',
      type: 'histogram',
      samples: [
        { labels: { le: '1' }, value: 1, suffix: '_bucket' },
        { labels: { le: '+Inf' }, value: 2, suffix: '_bucket' },
        { labels: {}, value: 3, suffix: '_sum' },
        { labels: {}, value: 2, suffix: '_count' },
      ],
    },
    { name: 'empty', help: '', type: 'gauge', samples: [] },
  ];

  it('is text as Prometheus reads it', () => {
    expect(toText(families)).toBe(
      [
        '# HELP a h',
        '# TYPE a histogram',
        'a_bucket{le="1"} 1',
        'a_bucket{le="+Inf"} 2',
        'a_sum 3',
        'a_count 2',
        String.raw`# HELP b_total a "help"\nof \\ two lines`,
        '# TYPE b_total counter',
        String.raw`b_total{x="a\"\\\n"} 1.5 9`,
        '',
      ].join('\n'),
    );
  });

  it('is messages as Prometheus reads them', async () => {
    const { parse } = await import('protobufjs');
    const { root } = parse(
      `syntax = "proto2";
      message LabelPair { optional string name = 1; optional string value = 2; }
      message Counter { optional double value = 1; }
      message Bucket { optional uint64 cumulative_count = 1; optional double upper_bound = 2; }
      message Histogram { optional uint64 sample_count = 1; optional double sample_sum = 2; repeated Bucket bucket = 3; }
      message Metric {
        repeated LabelPair label = 1; optional Counter counter = 3; optional Histogram histogram = 7;
        optional int64 timestamp_ms = 6;
      }
      message MetricFamily {
        optional string name = 1; optional string help = 2; optional int32 type = 3; repeated Metric metric = 4;
      }`,
      { keepCase: true },
    );
    const type = root.lookupType('MetricFamily');
    const bytes = toProtobuf(families);
    const first = type.decodeDelimited(bytes);
    const second = type.decodeDelimited(bytes.subarray(type.encodeDelimited(first).finish().length));
    expect(type.toObject(first, { longs: Number })).toMatchObject({
      name: 'a',
      type: 4,
      metric: [
        { histogram: { sample_count: 2, sample_sum: 3, bucket: [{ upper_bound: 1 }, { cumulative_count: 2 }] } },
      ],
    });
    expect(type.toObject(second, { longs: Number })).toMatchObject({
      name: 'b_total',
      metric: [{ label: [{ name: 'x', value: 'a"\\\n' }], counter: { value: 1.5 }, timestamp_ms: 9 }],
    });
  });
});
