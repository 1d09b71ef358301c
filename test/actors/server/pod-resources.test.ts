/** Which pods are reported to agents that monitor devices, on a real socket. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { PodResourcesMetrics } from '../../../src/actors/server/metrics/calls/request-metrics.ts';
import { servePodResources } from '../../../src/actors/server/pod-resources.ts';
import type { ServerItem } from '../../../src/machines/model/operations/server.ts';
import { askPodResources } from '../../support/pod-resources.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'statelet-agents-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const podIn = (name: string, phase: string) => ({
  uid: name,
  name,
  namespace: 'default',
  pod: { metadata: { name, namespace: 'default', uid: name }, spec: { containers: [{ name: 'c' }] } },
  status: { phase },
});

/** The resources of the container of every pod. */
const ALLOCATION = {
  settings: {},
  devices: {
    'example.com/d': {
      devices: [
        { id: 'both', isHealthy: true, nodes: [0, 1] },
        { id: 'none', isHealthy: true, nodes: null },
        { id: 'empty', isHealthy: true, nodes: [] },
        { id: 'broken', isHealthy: false, nodes: [0] },
      ],
      prefers: false,
    },
  },
  grants: {
    b: { devices: { c: { 'example.com/d': { nodes: { 0: ['one', 'two'] } } } } },
    spread: { devices: { c: { 'example.com/d': { nodes: { '-1': ['none'], 0: ['both'], 1: ['both'] } } } } },
  },
};

interface Listed {
  readonly podResources: readonly { readonly name: string }[];
}

interface Question {
  readonly version?: 'v1' | 'v1alpha1';
  readonly method?: string;
  readonly request?: object;
  readonly pods?: readonly object[];
  /** By source of pods, at each look at the sync loop. */
  readonly sources?: () => object;
}

const ENDED_TOO = [podIn('a', 'Running'), podIn('b', 'Succeeded')];

async function asked(
  settings: object,
  { version = 'v1', method = 'List', request = {}, pods = ENDED_TOO, sources = () => ({ api: [] }) }: Question = {},
): Promise<unknown> {
  const path = join(folder, 'agents.sock');
  const ended = new AbortController();
  const listening = Promise.withResolvers<ServerItem>();
  const input = { path, service: 'podResources' as const, settings: settings as never };
  const serving = servePodResources(
    { id: 1, resume: false, signal: ended.signal, emit: (item: ServerItem) => listening.resolve(item), input },
    {
      view: {
        pods: () => pods as never,
        allocatableCpus: () => [],
        contexts: <Context>(prefix: string) => [
          (prefix === 'kubelet/syncLoop' ? { sources: sources() } : ALLOCATION) as Context,
        ],
      },
      seen: new PodResourcesMetrics(new Registry()),
    },
  );
  await listening.promise;
  const answer = await askPodResources(path, method, request, version);
  ended.abort();
  await serving;
  return answer;
}

const listed = async (settings: object): Promise<readonly string[]> =>
  ((await asked(settings)) as Listed).podResources.map(({ name }) => name);

it('those that have ended are left out, unless a gate lists them', async () => {
  expect(await listed({})).toEqual(['a']);
  expect(await listed({ listsEndedPods: true })).toEqual(['a', 'b']);
  const request = { podName: 'b', podNamespace: 'default' };
  await expect(asked({ listsEndedPods: true }, { method: 'Get', request })).rejects.toThrow(
    'pod b in namespace default not found',
  );
});

it('agents older than v1 are told of the devices of every pod, on the same socket', async () => {
  const device = (id: string) => ({ resourceName: 'example.com/d', deviceIds: [id] });
  expect(await asked({}, { version: 'v1alpha1' })).toEqual({
    podResources: [
      { name: 'a', namespace: 'default', containers: [{ name: 'c' }] },
      { name: 'b', namespace: 'default', containers: [{ name: 'c', devices: [device('one'), device('two')] }] },
    ],
  });
});

interface ListedDevice {
  readonly deviceIds: readonly string[];
  readonly topology?: { readonly nodes: readonly { readonly ID: { readonly low: number } }[] };
}

/** Each entry as `id node…`. */
const entriesIn = ({ devices }: { readonly devices: readonly ListedDevice[] }): readonly string[] =>
  devices.map(({ deviceIds, topology }) =>
    [...deviceIds, ...(topology?.nodes ?? []).map(({ ID }) => ID.low)].join(' '),
  );

it('a device is listed once for each NUMA node, and once without topology if its plugin named none', async () => {
  const { podResources } = (await asked({}, { pods: [podIn('spread', 'Running')] })) as {
    readonly podResources: readonly { readonly containers: readonly { readonly devices: readonly ListedDevice[] }[] }[];
  };
  expect(entriesIn(podResources[0]!.containers[0]!).toSorted()).toEqual(['both 0', 'both 1', 'none']);
  const allocatable = (await asked({}, { method: 'GetAllocatableResources' })) as { devices: readonly ListedDevice[] };
  expect(entriesIn(allocatable)).toEqual(['both 0', 'both 1', 'none']);
});

it('of pods of one name, an agent is told of the one that its source has', async () => {
  const dying = {
    ...podIn('a', 'Running'),
    uid: 'dying',
    ending: { isOrphan: true, isStopped: false, isRejected: false },
  };
  const remains = { ...podIn('a', 'Running'), uid: 'remains', pod: null };
  const pods = [dying, remains, podIn('a', 'Running')];
  const request = { podName: 'a', podNamespace: 'default' };
  const known = { name: 'a', namespace: 'default', containers: [{ name: 'c' }] };
  expect(await asked({}, { method: 'Get', request, pods })).toMatchObject({ podResources: known });
  expect(((await asked({}, { pods })) as Listed).podResources).toHaveLength(1);
  await expect(asked({}, { method: 'Get', request, pods: [dying] })).rejects.toThrow(
    'pod a in namespace default not found',
  );
});

it.each(['v1', 'v1alpha1'] as const)(
  'of %s an answer about pods waits until each source has published',
  async (version) => {
    const pods: object[] = [];
    let looks = 0;
    const sources = (): object => {
      looks += 1;
      if (looks < 3) return { file: [], api: null };
      if (pods.length === 0) pods.push(podIn('a', 'Running'));
      return { file: [], api: ['a'] };
    };
    expect(((await asked({}, { version, pods, sources })) as Listed).podResources).toHaveLength(1);
    expect(looks).toBe(3);
  },
);

it('an answer about the resources of the node does not wait for pods', async () => {
  const sources = (): never => {
    throw new Error('nobody looks at the pods');
  };
  expect(await asked({}, { method: 'GetAllocatableResources', sources })).toMatchObject({ devices: expect.any(Array) });
});
