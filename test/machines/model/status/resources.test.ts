/** Sums of resources in the status of a pod, in the kubelet's text form. */
import { describe, expect, it } from 'vitest';
import type { Container, Pod, ResourceRequirements } from '../../../../src/machines/model/api/pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { podResourceStatus } from '../../../../src/machines/model/status/resources.ts';

const NODE = { behavior: NEWEST_BEHAVIOR };

const container = (name: string, resources: ResourceRequirements, more: Partial<Container> = {}): Container => ({
  name,
  image: 'i',
  resources,
  ...more,
});

const podOf = (spec: Partial<Pod['spec']>): Pod => ({
  metadata: { name: 'p', namespace: 'n', uid: 'u' },
  spec: { containers: [], ...spec },
});

const requested = (...lists: Readonly<Record<string, string>>[]) =>
  podResourceStatus(NODE, podOf({ containers: lists.map((requests, i) => container(`c${i}`, { requests })) }))
    .allocatedResources;

describe('a sum has the format of its first amount', () => {
  it.each([
    [['33554432'], '33554432'],
    [['10M', '1Mi'], '11048576'],
    [['1Mi', '10M'], '11048576'],
    [['1Mi', '1048576'], '2Mi'],
    [['0', '1Mi', '1048576'], '2Mi'],
    [['500M', '500M'], '1G'],
    [['1e3', '1e3'], '2e3'],
  ])('of memory, %j: %s', (amounts, sum) => {
    expect(requested(...amounts.map((memory) => ({ memory })))).toEqual({ memory: sum });
  });

  it.each([
    [['3e-3'], '3e-3'],
    [['100m', '0.25'], '350m'],
    [['100u'], '100u'],
  ])('of CPU, %j: %s', (amounts, sum) => expect(requested(...amounts.map((cpu) => ({ cpu })))).toEqual({ cpu: sum }));
});

it('the amount of an init container that needs more than all others keeps its format', () => {
  const containers = [container('c', { requests: { memory: '1Mi' } })];
  const initContainers = [container('i', { requests: { memory: '64M' } })];
  expect(podResourceStatus(NODE, podOf({ containers, initContainers })).allocatedResources).toEqual({ memory: '64M' });
});

it('amounts of the pod take the place of its containers', () => {
  const containers = [container('c', { requests: { memory: '1Mi', cpu: '1' } })];
  const resources = { requests: { memory: '64M' } };
  const { allocatedResources } = podResourceStatus(NODE, podOf({ containers, resources }));
  expect(allocatedResources).toEqual({ memory: '64M', cpu: '1' });
});

it('the overhead counts as requested, and as a limit only of what is limited', () => {
  const containers = [container('c', { requests: { cpu: '10m' }, limits: { cpu: '20m' } })];
  expect(podResourceStatus(NODE, podOf({ containers, overhead: { cpu: '5m', memory: '20Mi' } }))).toEqual({
    allocatedResources: { cpu: '15m', memory: '20Mi' },
    resources: { requests: { cpu: '15m', memory: '20Mi' }, limits: { cpu: '25m' } },
  });
});

it('a pod of thousands of resources is summed in one pass over the resources of each container', () => {
  const requests = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`example.com/r${i}`, '1']));
  let passes = 0;
  const counted = new Proxy(requests, {
    ownKeys: (list) => {
      passes += 1;
      return Reflect.ownKeys(list);
    },
  });
  const sums = requested(counted, { 'example.com/r0': '2' });
  expect(Object.keys(sums ?? {})).toHaveLength(5_000);
  expect(sums).toMatchObject({ 'example.com/r0': '3', 'example.com/r4999': '1' });
  expect(passes).toBeLessThan(20);
});
