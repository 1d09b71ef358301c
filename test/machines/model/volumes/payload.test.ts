/** Errors of volumes whose content cannot be created, and the memory limit of volumes, as upstream. */
import { describe, expect, it } from 'vitest';
import type { PodSpec, Volume } from '../../../../src/machines/model/api/pod.ts';
import { volumePlan } from '../../../../src/machines/model/volumes/plan.ts';
import { settings } from '../../../support/pods-node.ts';
import { container, pod } from '../../charts/pods/support.ts';

function planOf(volume: Omit<Volume, 'name'>, spec: Partial<PodSpec> = {}) {
  const volumeMounts = [{ name: 'v', mountPath: '/v' }];
  const containers = (spec.containers ?? [container()]).map((each) => ({ ...each, volumeMounts }));
  const node = { ...settings, allocatable: { cpu: '2', memory: '1000' } };
  return volumePlan({ pod: pod({ ...spec, containers, volumes: [{ name: 'v', ...volume }] }), node, objects: {} });
}

describe('a projected volume', () => {
  it('tells everything that is missing, each once', () => {
    const sources = [
      { configMap: { name: 'a' } },
      { configMap: { name: 'a' } },
      { secret: { name: 'b' } },
      { secret: { name: 'c', optional: true } },
    ];
    expect(planOf({ projected: { sources } }).failures).toEqual([
      { name: 'v', message: '[configmap "a" not found, secret "b" not found]' },
    ]);
  });

  it('tells what alone is missing without brackets', () => {
    expect(planOf({ projected: { sources: [{ secret: { name: 'b' } }] } }).failures[0]?.message).toBe(
      'secret "b" not found',
    );
  });
});

it('a source of which the API server kept nothing is one without files', () => {
  const { failures, setUps } = planOf({ projected: { sources: [{}] } });
  expect(failures).toEqual([]);
  expect(setUps).toMatchObject([{ files: [] }]);
});

it('a repository is no volume any more, as upstream says it', () => {
  const [failure] = planOf({ gitRepo: { repository: 'x' } }).failures;
  expect(failure?.message).toMatch(/^git-repo volume plugin has been disabled; /);
});

describe('a file of the downward API', () => {
  it('knows the limits of containers and of the node, not those of the pod as a whole', () => {
    const item = { path: 'm', resourceFieldRef: { containerName: 'c', resource: 'limits.memory' } };
    const { setUps } = planOf({ downwardAPI: { items: [item] } }, { resources: { limits: { memory: '9' } } });
    expect(setUps).toMatchObject([{ files: [{ path: 'm', content: { text: '1000' } }] }]);
  });

  it('of a container that is not there is an error', () => {
    const item = { path: 'm', resourceFieldRef: { containerName: 'x', resource: 'limits.memory' } };
    expect(planOf({ downwardAPI: { items: [item] } }).failures[0]?.message).toBe('container x not found');
  });
});

describe('memory for files', () => {
  const sizeOf = (spec: Partial<PodSpec>): unknown => {
    const [setUp] = planOf({ emptyDir: { medium: 'Memory' } }, spec).setUps;
    return setUp && 'mount' in setUp ? setUp.mount?.options[0] : null;
  };
  const limited = (memory: string) => [container({ resources: { limits: { memory }, requests: { cpu: '1' } } })];

  it.each<[string, Partial<PodSpec>, string]>([
    ['that of its containers', { containers: limited('300') }, 'size=300'],
    ['with its overhead', { containers: limited('300'), overhead: { memory: '50' } }, 'size=350'],
    ['that of the pod as a whole', { resources: { limits: { memory: '200' } } }, 'size=200'],
    ['what the node has where a container has no limit', { containers: limited('0') }, 'size=1000'],
  ])('is bounded by what bounds the pod: %s', (_, spec, size) => expect(sizeOf(spec)).toBe(size));
});
