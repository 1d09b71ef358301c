/** In-place resize of init containers that are not sidecars. */
import { afterEach, expect, it } from 'vitest';
import type { Pod, ResourceRequirements } from '../../../../../src/machines/model/api/pod.ts';
import { apiPod, bootCountingNode, sendPods } from '../../../../support/counting-node.ts';
import type { PodsNode } from '../../../../support/pods-node.ts';

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

const asking = (generation: number, first: ResourceRequirements, cpu = '100m'): Pod => {
  const regular = { name: 'c', image: 'app:1', resources: { requests: { cpu }, limits: { cpu } } };
  return apiPod(
    'p',
    { initContainers: [{ name: 'first', image: 'app:1', resources: first }], containers: [regular] },
    generation,
  );
};
const limited = (cpu: string) => ({ requests: { cpu }, limits: { cpu } });
const initRuns = () => node.status('p')?.initContainerStatuses?.[0]?.state?.running !== undefined;
const conditions = () => (node.status('p')?.conditions ?? []).filter(({ type }) => type.startsWith('PodResize'));

it('is applied to the running init container, and its event names the container', () => {
  node = bootCountingNode({});
  sendPods(node, 'ADD', asking(1, limited('200m')));
  node.until('it initialises', initRuns);
  sendPods(node, 'UPDATE', asking(2, limited('300m')));
  node.until(
    'done',
    () => node.events().some((text) => text.startsWith('ResizeCompleted')) && conditions().length === 0,
  );
  expect(node.world.resizes).toMatchObject([{ linux: { cpu_quota: '30000' } }]);
  expect(node.events().find((text) => text.startsWith('ResizeStarted'))).toContain('"initContainers":[{"name":"first"');
  expect(node.world.callsOf('cri.stopContainer')).toEqual([]);
});

it('waits beyond the capacity of the node', () => {
  node = bootCountingNode({});
  sendPods(node, 'ADD', asking(1, limited('200m')));
  node.until('it initialises', initRuns);
  sendPods(node, 'UPDATE', asking(2, limited('64')));
  node.run(1_000);
  expect(conditions()).toMatchObject([{ type: 'PodResizePending', reason: 'Deferred' }]);
  expect(node.world.resizes).toEqual([]);
});
