/** Which pods agents are told of, on a real socket. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { RequestMetrics } from '../../../src/actors/server/metrics/calls/request-metrics.ts';
import { servePodResources } from '../../../src/actors/server/pod-resources.ts';
import type { ServerItem } from '../../../src/machines/operations/server.ts';
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

/** Of the container of every pod. */
const ALLOCATION = {
  settings: {},
  devices: {},
  grants: { b: { devices: { c: { 'example.com/d': { nodes: { 0: ['one', 'two'] } } } } } },
};

interface Listed {
  readonly podResources: readonly { readonly name: string }[];
}

async function asked(settings: object, version: 'v1' | 'v1alpha1' = 'v1'): Promise<Listed> {
  const path = join(folder, 'agents.sock');
  const ended = new AbortController();
  const listening = Promise.withResolvers<ServerItem>();
  const input = { path, service: 'podResources' as const, settings: settings as never };
  const serving = servePodResources(
    { id: 1, resume: false, signal: ended.signal, emit: (item: ServerItem) => listening.resolve(item), input },
    {
      view: {
        pods: () => [podIn('a', 'Running'), podIn('b', 'Succeeded')] as never,
        allocatableCpus: () => [],
        contexts: () => [ALLOCATION],
      },
      requests: new RequestMetrics(new Registry()),
    },
  );
  await listening.promise;
  const answer = await askPodResources(path, 'List', {}, version);
  ended.abort();
  await serving;
  return answer as Listed;
}

const listed = async (settings: object): Promise<readonly string[]> =>
  (await asked(settings)).podResources.map(({ name }) => name);

test('those that have ended are left out, unless a gate lists them', async () => {
  expect(await listed({})).toEqual(['a']);
  expect(await listed({ listsEndedPods: true })).toEqual(['a', 'b']);
});

test('agents older than v1 are told of the devices of every pod, on the same socket', async () => {
  const device = (id: string) => ({ resourceName: 'example.com/d', deviceIds: [id] });
  expect(await asked({}, 'v1alpha1')).toEqual({
    podResources: [
      { name: 'a', namespace: 'default', containers: [{ name: 'c' }] },
      { name: 'b', namespace: 'default', containers: [{ name: 'c', devices: [device('one'), device('two')] }] },
    ],
  });
});
