/** A daemon with `tracing` in its configuration exports the spans of a pod's start to a collector, over real OTLP. */
import { expect, it } from 'vitest';
import { startCollector } from '../fakes/otlp-collector.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../support/daemon.ts';

it('spans of a pod are one trace, with the names that users of a kubelet know', async () => {
  const collector = await startCollector();
  const node = new TestNode({
    configuration: `tracing: { endpoint: "${collector.endpoint}", samplingRatePerMillion: 1000000 }`,
  });
  try {
    node.write('app', shellPod('app', 'busybox', SLEEP));
    await node.start();
    const { spans } = collector;
    const start = await eventually('the start of a container', () =>
      spans.find(({ name }) => name === 'runtime.v1.RuntimeService/StartContainer'),
    );
    const root = await eventually('its trace', () => spans.find(({ span_id }) => span_id === start.parent_span_id));
    expect(root.name).toBe('syncPod');
    expect(root.attributes).toContainEqual({ key: 'k8s.pod.name', value: { string_value: 'app-node1' } });
    const names = spans.filter(({ trace_id }) => trace_id === root.trace_id).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['runtime.v1.RuntimeService/CreateContainer']));
    expect(spans.map(({ name }) => name)).toContain('runtime.v1.RuntimeService/RunPodSandbox');
    expect(collector.resources[0]).toContainEqual({ key: 'service.name', value: { string_value: 'kubelet' } });
  } finally {
    await node.close();
    collector.close();
  }
});
