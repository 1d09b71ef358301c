/**
 * A resize of a container that is being created or started, or at the start of an agent: proves R2 and R3 of
 * `pod-resize.ts`.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Container, Pod } from '../../../../../src/machines/model/api/pod.ts';
import { apiPod, bootCountingNode, removePod, sendPods } from '../../../../support/counting-node.ts';
import { image, type PodsNode } from '../../../../support/pods-node.ts';

let node: PodsNode;

const of = (generation: number, containers: readonly (Omit<Container, 'image'> & { image?: string })[]): Pod =>
  apiPod('p', { containers: containers.map((each) => ({ image: 'app:1', ...each })) }, generation);
const cpu = (amount: string, more: Partial<Container> = {}) => ({
  name: 'c',
  resources: { requests: { cpu: amount } },
  ...more,
});
const anew = (name: string, memory: string) => ({
  name,
  resources: { requests: { memory } },
  resizePolicy: [{ resourceName: 'memory', restartPolicy: 'RestartContainer' }],
});

const isRunning = () => node.phase('p') === 'Running';
const resizeEvents = () => node.events().flatMap((text) => /^Resize\w+/.exec(text)?.[0] ?? []);
const isUnderWay = () => (node.status('p')?.conditions ?? []).some(({ type }) => type === 'PodResizeInProgress');
const sharesSent = () => node.world.resizes.map(({ linux }) => linux?.cpu_shares);

function restartWith(pod: Pod): void {
  node = node.restart();
  node.world.fault = () => undefined;
  node.run(1);
  node.kernel.dispatch('kubelet/syncLoop', { type: 'config.sourceReady', source: 'api', uids: ['p'] }, 'test');
  node.run(100);
  sendPods(node, 'ADD', pod);
}

beforeEach(() => {
  node = bootCountingNode();
  node.world.setManifests([]);
});

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('an agent that begins while a resize is half done', () => {
  it('tells the running container, once, and only then that it is done', () => {
    sendPods(node, 'ADD', of(1, [cpu('100m')]));
    node.until('Running', isRunning);
    node.world.fault = (name) => (name === 'cri.updateContainerResources' ? { error: 'device busy' } : undefined);
    sendPods(node, 'UPDATE', of(2, [cpu('200m')]));
    node.run(3_000);
    restartWith(of(2, [cpu('200m')]));
    node.run(5_000);
    expect(sharesSent()).toEqual(['204']);
    expect(resizeEvents()).toEqual(['ResizeCompleted']);
    expect(isUnderWay()).toBe(false);
  });

  it('tells the running container what was asked for while there was none', () => {
    sendPods(node, 'ADD', of(1, [cpu('100m')]));
    node.until('Running', isRunning);
    node.run(3_000);
    restartWith(of(2, [cpu('200m')]));
    node.run(5_000);
    expect(sharesSent()).toEqual(['204']);
    expect(resizeEvents()).toEqual(['ResizeStarted', 'ResizeCompleted']);
  });

  it('remembers what a container has whose hook was waited for', () => {
    node.world.commands.set('slow', { takesMs: 30_000, exitCode: 0 });
    const hooked = { lifecycle: { postStart: { exec: { command: ['slow'] } } } };
    sendPods(node, 'ADD', of(1, [cpu('100m', hooked)]));
    node.until('started', () => node.world.runtime.started.length === 1);
    sendPods(node, 'UPDATE', of(2, [cpu('200m', hooked)]));
    node.run(5_000);
    restartWith(of(2, [cpu('200m', hooked)]));
    node.run(40_000);
    expect(sharesSent()).toEqual(['204']);
  });

  it('lets alone what has begun anew already', () => {
    node.world.runtime.programs.set('c', [{ stopsMs: 25_000 }]);
    sendPods(node, 'ADD', of(1, [anew('a', '32Mi'), anew('c', '32Mi')]));
    node.until('Running', isRunning);
    node.run(2_000);
    sendPods(node, 'UPDATE', of(2, [anew('a', '64Mi'), anew('c', '64Mi')]));
    node.run(5_000);
    expect(node.world.runtime.started).toEqual(['p/a#0', 'p/c#0', 'p/a#1']);
    restartWith(of(2, [anew('a', '64Mi'), anew('c', '64Mi')]));
    node.run(40_000);
    expect(node.world.runtime.started).toEqual(['p/a#0', 'p/c#0', 'p/a#1', 'p/c#1']);
    expect(resizeEvents()).toEqual(['ResizeCompleted']);
  });
});

it('a pod shows what it is to have as allocated, and what it has so far as its resources', () => {
  const shown = () => {
    const { allocatedResources, resources } = node.status('p') ?? {};
    return { allocated: allocatedResources?.['cpu'], has: resources?.requests?.['cpu'] };
  };
  sendPods(node, 'ADD', of(1, [cpu('100m')]));
  node.until('Running', isRunning);
  node.world.fault = (name) => (name === 'cri.updateContainerResources' ? { error: 'device busy' } : undefined);
  sendPods(node, 'UPDATE', of(2, [cpu('200m')]));
  node.run(3_000);
  expect(shown()).toEqual({ allocated: '200m', has: '100m' });
  node.world.fault = () => undefined;
  node.run(20_000);
  expect(shown()).toEqual({ allocated: '200m', has: '200m' });
});

describe('a container that is on its way with what was given before', () => {
  it('is told when the hook of its start is done', () => {
    node.world.commands.set('slow', { takesMs: 30_000, exitCode: 0 });
    const hooked = { lifecycle: { postStart: { exec: { command: ['slow'] } } } };
    sendPods(node, 'ADD', of(1, [cpu('100m', hooked)]));
    node.until('started', () => node.world.runtime.started.length === 1);
    sendPods(node, 'UPDATE', of(2, [cpu('200m', hooked)]));
    node.run(20_000);
    expect(isUnderWay()).toBe(true);
    expect(sharesSent()).toEqual([]);
    node.run(20_000);
    expect(sharesSent()).toEqual(['204']);
    expect(resizeEvents()).toEqual(['ResizeStarted', 'ResizeCompleted']);
  });

  it('is told when it runs, where it was being created', () => {
    node.world.fault = (name, _, nth) =>
      name === 'cri.createContainer' && nth === 0 ? { extraMs: 10_000 } : undefined;
    sendPods(node, 'ADD', of(1, [cpu('100m')]));
    node.until('created', () => node.world.callsOf('cri.createContainer').length === 1);
    sendPods(node, 'UPDATE', of(2, [cpu('200m')]));
    node.run(20_000);
    expect(isRunning()).toBe(true);
    expect(sharesSent()).toEqual(['204']);
    expect(resizeEvents()).toEqual(['ResizeStarted', 'ResizeCompleted']);
  });

  it('is told when it runs, where an agent before had created it', () => {
    node.world.fault = (name) => (name === 'cri.startContainer' ? { hangs: true } : undefined);
    sendPods(node, 'ADD', of(1, [cpu('100m')]));
    node.until('start', () => node.world.callsOf('cri.startContainer').length === 1);
    node.run(3_000);
    restartWith(of(2, [cpu('200m')]));
    node.run(20_000);
    expect(node.world.callsOf('cri.createContainer')).toHaveLength(1);
    expect(sharesSent()).toEqual(['204']);
  });

  it('is not waited for once it has failed to begin: the next instance has what is given now', () => {
    node.world.fault = (name, _, nth) =>
      name === 'cri.createContainer' && nth === 0 ? { error: 'no space', extraMs: 1_000 } : undefined;
    sendPods(node, 'ADD', of(1, [cpu('100m')]));
    node.until('created', () => node.world.callsOf('cri.createContainer').length === 1);
    sendPods(node, 'UPDATE', of(2, [cpu('200m')]));
    node.run(20_000);
    expect(sharesSent()).toEqual([]);
    const [instance] = [...node.world.runtime.containers.values()];
    expect(instance?.config.linux?.resources?.cpu_shares).toBe('204');
    expect(resizeEvents()).toEqual(['ResizeStarted', 'ResizeCompleted']);
  });

  it('restarts once more when still more is granted meanwhile', () => {
    sendPods(node, 'ADD', of(1, [anew('c', '32Mi')]));
    node.until('Running', isRunning);
    node.world.fault = (name) => (name === 'cri.createContainer' ? { extraMs: 10_000 } : undefined);
    sendPods(node, 'UPDATE', of(2, [anew('c', '64Mi')]));
    node.until('created', () => node.world.callsOf('cri.createContainer').length === 2);
    sendPods(node, 'UPDATE', of(3, [anew('c', '96Mi')]));
    node.run(40_000);
    expect(node.world.runtime.started).toEqual(['p/c#0', 'p/c#1', 'p/c#2']);
    expect(isUnderWay()).toBe(false);
  });
});

it('an instance that is about to be replaced is not resized: the next one gets the granted resources', () => {
  const large = { resources: { requests: { cpu: '200m', memory: '64Mi' }, limits: { memory: '64Mi' } } };
  const small = { resources: { requests: { cpu: '100m', memory: '32Mi' }, limits: { memory: '32Mi' } } };
  node.world.runtime.programs.set('c', [{ stopsMs: 5_000 }]);
  sendPods(node, 'ADD', of(1, [{ name: 'c', ...small }]));
  node.until('Running', isRunning);
  node.world.fault = (name) => (name === 'cgroup.update' ? { extraMs: 1_000 } : undefined);
  sendPods(node, 'UPDATE', of(2, [{ name: 'c', ...large }]));
  node.run(500);
  node.world.runtime.images.set('app:2', image('app:2'));
  sendPods(node, 'UPDATE', of(3, [{ name: 'c', ...large, image: 'app:2' }]));
  node.run(30_000);
  expect(node.world.runtime.started).toEqual(['p/c#0', 'p/c#1']);
  expect(node.world.callsOf('cri.updateContainerResources')).toEqual([]);
  expect(node.world.runtime.running('c')?.config.linux?.resources?.cpu_shares).toBe('204');
  expect(resizeEvents()).toEqual(['ResizeStarted', 'ResizeCompleted']);
  expect(isUnderWay()).toBe(false);
});

it('a resize of a pod that is killed meanwhile is never called done', () => {
  node.world.runtime.programs.set('c', [{ stopsMs: 20_000 }]);
  sendPods(node, 'ADD', of(1, [anew('c', '32Mi')]));
  node.until('Running', isRunning);
  sendPods(node, 'UPDATE', of(2, [anew('c', '64Mi')]));
  node.run(3_000);
  removePod(node, 'p');
  node.run(40_000);
  expect(node.world.runtime.started).toEqual(['p/c#0']);
  expect(resizeEvents()).toEqual(['ResizeStarted']);
});
