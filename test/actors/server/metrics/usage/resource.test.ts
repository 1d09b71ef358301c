/** `/metrics/resource` and `/stats/summary` of one measurement. */
import { expect, it } from 'vitest';
import { statsEndpoints } from '../../../../../src/actors/server/endpoints/metrics.ts';
import type { ApiRequest } from '../../../../../src/actors/server/http/endpoint.ts';
import { measuresVolumes, resourceFamilies } from '../../../../../src/actors/server/metrics/usage/summary-gauges.ts';
import type { Summary } from '../../../../../src/actors/stats/usage-types.ts';

const TIME = '2026-01-02T03:04:05.678Z';
const cpu = { time: TIME, usageCoreNanoSeconds: 2_000_000_000n };
const pod = (name: string, containers: Summary['pods'][number]['containers']): Summary['pods'][number] => ({
  podRef: { name, namespace: 'ns', uid: `u-${name}` },
  startTime: TIME,
  containers,
  cpu,
});
const SUMMARY = {
  node: { nodeName: 'n', startTime: TIME, cpu },
  pods: [pod('runs', [{ name: 'c', startTime: TIME, cpu }]), pod('waits', [])],
} satisfies Summary;

it('samples have the millisecond of their measurement, starts of containers too', () => {
  const samples = resourceFamilies(SUMMARY).flatMap((family) =>
    family.samples.map((each) => ({ ...each, of: family.name })),
  );
  const timed = samples.filter(({ of }) => of.endsWith('_cpu_usage_seconds_total'));
  expect(timed.map(({ timestampMs }) => timestampMs)).toEqual(Array(3).fill(Date.parse(TIME)));
  const started = samples.find(({ of }) => of === 'container_start_time_seconds');
  expect(started?.value).toBe(Date.parse(TIME) / 1_000);
});

it('a pod of which no container runs is in neither, and times of the summary are to the second', async () => {
  const labels = resourceFamilies(SUMMARY).flatMap(({ samples }) => samples.map((each) => each.labels['pod']));
  expect(new Set(labels)).toEqual(new Set([undefined, 'runs']));
  const [endpoint] = statsEndpoints({ summary: async () => SUMMARY });
  const answer = await endpoint!.answer({
    query: new Map(),
    signal: AbortSignal.timeout(1_000),
  } as unknown as ApiRequest);
  const { node, pods } = JSON.parse(answer.body as string) as Summary;
  expect(pods.map(({ podRef }) => podRef.name)).toEqual(['runs']);
  expect([node.startTime, pods[0]!.containers[0]!.cpu?.time]).toEqual(['2026-01-02T03:04:05Z', '2026-01-02T03:04:05Z']);
});

it.each([
  ['1m0s', true],
  ['0s', false],
  ['-1s', false],
])('with a period of %s volumes are measured: %s', (volumeStatsAggPeriod, expected) => {
  expect(measuresVolumes({ volumeStatsAggPeriod })).toBe(expected);
});
