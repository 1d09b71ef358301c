/** A pod that is too large for this node is rejected before any other work on it. */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../src/kernel/json.ts';
import { podFromApi } from '../../../../src/machines/charts/pods/config/api-publication.ts';
import { staticPod } from '../../../../src/machines/model/pods/static-pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { POD_CONTAINERS_MAX, POD_VALUES_MAX, sizeProblem } from '../../../../src/machines/model/validation/pod.ts';

const NEWEST = { behavior: NEWEST_BEHAVIOR };
const containers = (length: number) => Array.from({ length }, (_, at) => ({ name: `c${at}`, image: 'i' }));
const pod = (spec: object) => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' }, spec });

describe('a pod', () => {
  it('has as many containers as the limit, and none more', () => {
    expect(sizeProblem(pod({ containers: containers(POD_CONTAINERS_MAX) }))).toBeNull();
    const tooMany = pod({ containers: containers(POD_CONTAINERS_MAX), initContainers: containers(1) });
    expect(sizeProblem(tooMany)).toBe(
      'spec.containers: Too many: 2001: this node takes pods of at most 2000 containers, init containers among them',
    );
  });

  it('has ephemeral containers among them', () => {
    const spec = { containers: containers(1), ephemeralContainers: containers(POD_CONTAINERS_MAX) };
    expect(sizeProblem(pod(spec))).toContain('Too many: 2001');
  });

  it('has as many values as the limit, and none more', () => {
    const args = (length: number) => pod({ containers: [{ name: 'c', args: Array.from({ length }, () => 'a') }] });
    const rest = 10;
    expect(sizeProblem(args(POD_VALUES_MAX - rest))).toBeNull();
    expect(sizeProblem(args(POD_VALUES_MAX - rest + 1))).toBe(
      'the pod has more than 50000 fields and entries of lists, the most that this node takes',
    );
  });

  it('of a file is refused with that, whatever else is wrong', () => {
    const value = pod({ containers: containers(POD_CONTAINERS_MAX + 1), nonsense: 1 });
    expect(staticPod({ file: 'f', uid: 'u', value } as never, 'node').errors).toEqual([sizeProblem(value)]);
  });

  it('of the API server names as many objects as the limit, and none more', () => {
    const metadata = { name: 'a', namespace: 'b', uid: 'c' };
    const naming = (volumes: readonly JsonObject[]) =>
      podFromApi({ metadata, spec: { containers: containers(1), volumes } }, NEWEST).error;
    const configMaps = (length: number) =>
      Array.from({ length }, (_, at) => ({ name: `v${at}`, configMap: { name: `m${at}` } }));
    const tokens = (length: number) =>
      Array.from({ length }, (_, at) => ({ serviceAccountToken: { audience: `a${at}`, path: `p${at}` } }));
    // In addition, a pod has the services of its namespace.
    expect(naming(configMaps(499))).toBeUndefined();
    const text = 'the pod needs 501 objects, tokens and volumes of drivers: this node takes pods of at most 500';
    expect(naming(configMaps(500))).toBe(text);
    const drivers = Array.from({ length: 300 }, (_, at) => ({ name: `d${at}`, csi: { driver: `d${at}.example.com` } }));
    expect(naming([...configMaps(200), ...drivers])).toBe(text);
    expect(naming([...configMaps(200), { name: 't', projected: { sources: tokens(300) } }])).toBe(text);
  });

  it('of the API server is refused with that', () => {
    const metadata = { name: 'a', namespace: 'b', uid: 'c' };
    const { error } = podFromApi({ metadata, spec: { containers: containers(POD_CONTAINERS_MAX + 1) } }, NEWEST);
    expect(error).toContain('spec.containers: Too many: 2001');
    const ephemeralContainers = containers(POD_CONTAINERS_MAX);
    const spec = { containers: containers(1), ephemeralContainers };
    expect(podFromApi({ metadata, spec }, NEWEST).error).toContain('Too many: 2001');
    expect(podFromApi({ metadata, spec }, { behavior: 0 }).error).toBeUndefined();
  });
});
