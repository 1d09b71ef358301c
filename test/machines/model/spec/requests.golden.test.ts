/**
 * Every RunPodSandbox, CreateContainer and PullImage of the recorded kubelet, built again from the applied objects.
 *
 * Facts that the agent does not decide come from the recording: the image's id, the number of the attempt, service
 * variables, the folders of volumes that others set up. All else must be equal.
 */
import { afterAll, describe, expect, it } from 'vitest';
import type { Container, Pod } from '../../../../src/machines/model/api/pod.ts';
import { type ContainerKind, containerConfig } from '../../../../src/machines/model/spec/container.ts';
import { containerHash } from '../../../../src/machines/model/spec/hash.ts';
import { isSidecar } from '../../../../src/machines/model/spec/resources.ts';
import { sandboxConfig } from '../../../../src/machines/model/spec/sandbox.ts';
import { volumePlan } from '../../../../src/machines/model/volumes/plan.ts';
import { canonical } from './canonical.ts';
import { type Call, node, type Recorded, type Recording, recordings } from './recordings.ts';

const BUILT = new Set(['RunPodSandbox', 'CreateContainer', 'PullImage']);

const requestsOf = ({ calls }: Recording): readonly Call[] => calls.filter(({ method }) => BUILT.has(method));
const asking = recordings.filter((recording) => requestsOf(recording).length > 0);
let compared = 0;
afterAll(() => {
  const silent = recordings.length - asking.length;
  console.info(`requests: ${compared} equal, 0 excused; ${silent} of ${recordings.length} recordings have none`);
});

it.each(asking)('recording $name asks the runtime for the same', (recording) => {
  for (const call of requestsOf(recording)) {
    expect(canonical(rebuilt(recording, call)), `${call.method} at ${call.at} ms`).toEqual(canonical(call.request));
    compared += 1;
  }
});

it('covers the corpus', () => {
  const counts = Object.groupBy(recordings.flatMap(requestsOf), ({ method }) => method);
  expect(Object.fromEntries(Object.entries(counts).map(([method, list]) => [method, list?.length]))).toEqual({
    RunPodSandbox: 107,
    CreateContainer: 141,
    PullImage: 13,
  });
});

function rebuilt(recording: Recording, call: Call): Recorded {
  const { request } = call;
  const pod = podOf(recording, call);
  if (call.method === 'RunPodSandbox') {
    const { attempt = 0 } = request.config.metadata;
    return { ...request, config: sandboxConfig(pod, attempt, node) };
  }
  const sandbox = sandboxConfig(pod, request.sandbox_config.metadata.attempt ?? 0, node);
  if (call.method === 'PullImage') return { ...request, sandbox_config: sandbox };
  const result = containerConfig(inputOf(recording, pod, request.config));
  if ('error' in result) throw new Error(result.error.message);
  return { ...request, config: result.config, sandbox_config: sandbox };
}

function podOf(recording: Recording, call: Call): Pod {
  const { uid } = (call.request.sandbox_config ?? call.request.config).metadata;
  const pod = recording.podAt(uid, call.at);
  if (pod === undefined) throw new Error(`${recording.name}: no object with uid ${uid}`);
  return pod;
}

function inputOf(recording: Recording, pod: Pod, config: Recorded): Parameters<typeof containerConfig>[0] {
  const { container, kind } = find(pod, config.metadata.name);
  const mount = config.mounts.find(({ host_path }: Recorded) => host_path.includes('/containers/'));
  return {
    pod,
    container,
    kind,
    restartCount: config.metadata.attempt ?? 0,
    imageRef: config.image.image,
    image: { id: '', repo_tags: [], repo_digests: [], size: '0', uid: { value: '0' }, username: '', pinned: false },
    podIPs: pod.spec.hostNetwork === true ? node.nodeIPs : ['<ip>'],
    node,
    terminationLogFile: mount.host_path,
    volumes: volumePlan({ pod, node, objects: {} }).mounted,
    serviceVariables: (config.envs ?? []).filter(({ key }: Recorded) => !isOwn(container, recording, key)),
    references: recording.references,
  };
}

function find(pod: Pod, name: string): { container: Container; kind: ContainerKind } {
  const regular = pod.spec.containers.find((each) => each.name === name);
  if (regular !== undefined) return { container: regular, kind: 'regular' };
  const init = pod.spec.initContainers?.find((each) => each.name === name);
  if (init === undefined) throw new Error(`no container ${name} in pod ${pod.metadata.name}`);
  return { container: init, kind: isSidecar(init) ? 'sidecar' : 'init' };
}

function isOwn({ env = [], envFrom = [] }: Container, { references }: Recording, key: string): boolean {
  if (env.some(({ name }) => name === key)) return true;
  return envFrom.some(({ prefix = '', configMapRef, secretRef }) => {
    const object = references.configMaps[configMapRef?.name ?? ''] ?? references.secrets[secretRef?.name ?? ''] ?? {};
    return Object.keys(object).some((each) => prefix + each === key);
  });
}

describe('containerHash', () => {
  it.each([
    ['c', 'localhost/bb:1', 'f487c31f'],
    ['i1', 'localhost/bb:1', '630df322'],
    ['side', 'localhost/bb:1', 'f5522d0d'],
  ])('of %s with %s is %s', (name, image, hash) => {
    expect(containerHash({ name, image })).toBe(hash);
  });
});
