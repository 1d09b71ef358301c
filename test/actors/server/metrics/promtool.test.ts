/** Prometheus' own linter reads every endpoint, and complains only about upstream's names. */
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toText } from '../../../../src/actors/server/metrics/instruments.ts';
import { requirement } from '../../../support/require.ts';
import { golden } from '../golden-records.ts';
import { type MeasuredNode, measuredNode } from '../metrics-node.ts';

const promtool = (input: string) => spawnSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8' });
const reason = promtool('').error === undefined ? null : 'promtool of Prometheus is not installed';

/** Its exit code if it could read everything but recommends other names. */
const LINT = 3;
/** Upstream's names (pkg/kubelet/metrics) of resource managers that the recorded kubelet did not run. */
const OF_RESOURCE_MANAGERS = [
  'kubelet_container_aligned_compute_resources_count',
  'kubelet_container_aligned_compute_resources_failure_count',
];

describe.skipIf(requirement('promtool', reason).skip)('promtool', () => {
  let node: MeasuredNode;
  beforeAll(async () => {
    node = await measuredNode();
  });
  afterAll(() => node.close());

  it.each(['node', 'cadvisor', 'resource', 'probes', 'slis'] as const)('takes the metrics of %s', async (endpoint) => {
    const { status, stderr, stdout } = promtool(toText(await node.metrics[endpoint]()));
    const recorded = golden('metrics-families.json');
    const findings = `${stdout}${stderr}`.split('\n').filter((line) => line !== '');
    expect([0, LINT], findings.join('\n')).toContain(status);
    const isUpstreams = (name = ''): boolean =>
      recorded.includes(`"name": "${name}"`) || OF_RESOURCE_MANAGERS.includes(name);
    const ours = findings.filter((line) => !isUpstreams(line.split(' ')[0]));
    expect(ours).toEqual([]);
  });

  it('refuses what is no exposition, so that its word counts', () => {
    expect([0, LINT]).not.toContain(promtool('a_total{x="1} 1\n').status);
  });
});
