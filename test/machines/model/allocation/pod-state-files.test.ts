/** The files of allocated resources, compared with a file of a Go kubelet. */
import { describe, expect, it } from 'vitest';
import { podStateTexts, withPodStates } from '../../../../src/machines/model/allocation/pod-state-files.ts';
import type { Allocation, Grant } from '../../../../src/machines/model/operations/grants.ts';

const fileOf = (data: string, checksum: number): string => JSON.stringify({ data, checksum });

/** `allocated_pods_state` of a kubelet 1.36.2. */
const OF_GO = fileOf(
  '{"entries":{"40784d79-3eaa-4d26-babb-d979524648e5":{"ContainerResources":{"c":{}},"PodLevelResources":null},' +
    '"55f052bc-e5d5-4d0d-ba68-b85446e746c5":{"ContainerResources":{"c":{"limits":{"memory":"40Mi"},' +
    '"requests":{"cpu":"10m","memory":"20Mi"}},"i":{}},"PodLevelResources":null},' +
    '"bf060ceb-6ec9-4ebe-a1cd-c4c8eea53465":{"ContainerResources":{"c":{},"d":{}},"PodLevelResources":null}}}',
  565964279,
);
const ALLOCATIONS: Readonly<Record<string, Allocation>> = {
  'bf060ceb-6ec9-4ebe-a1cd-c4c8eea53465': { d: {}, c: {} },
  '40784d79-3eaa-4d26-babb-d979524648e5': { c: {} },
  '55f052bc-e5d5-4d0d-ba68-b85446e746c5': {
    i: {},
    c: { requests: { cpu: '10m', memory: '20Mi' }, limits: { memory: '40Mi' } },
  },
};

/** `actuated_pods_state` of a kubelet 1.36.2 with a pod that has limits for all of its containers. */
const OF_GO_WITH_POD_LIMITS = fileOf(
  '{"entries":{"721a7080-7e53-4c3f-b7b8-7f33414053ae":{"ContainerResources":{"c":{"limits":{"cpu":"200m",' +
    '"memory":"128Mi"}}},"PodLevelResources":{"limits":{"cpu":"200m","memory":"128Mi"},' +
    '"requests":{"cpu":"200m","memory":"128Mi"}}}}}',
  65339142,
);
const AMOUNTS = { cpu: '200m', memory: '128Mi' };
const WITH_POD_LIMITS: Readonly<Record<string, Allocation>> = {
  '721a7080-7e53-4c3f-b7b8-7f33414053ae': { '': { limits: AMOUNTS, requests: AMOUNTS }, c: {} },
};

const NONE = { containers: {}, probes: {} };
const grantsOf = (allocations: Readonly<Record<string, Allocation>>, more: Partial<Grant> = {}) =>
  Object.fromEntries(
    Object.entries(allocations).map(([uid, allocation]) => [uid, { demand: {}, allocation, ...more } as Grant]),
  );
const granting = (cpu: string): Allocation => ({ c: { requests: { cpu } } });
const textOf = (allocations: Readonly<Record<string, Allocation>>): string =>
  podStateTexts({ ...NONE, grants: grantsOf(allocations) })[0];

describe('what is written', () => {
  it('is what a Go kubelet writes', () => {
    expect(podStateTexts({ ...NONE, grants: grantsOf(ALLOCATIONS) })).toEqual([OF_GO, OF_GO]);
  });

  it('has the resources of running instances during a resize, and those of the whole pod', () => {
    const grants = grantsOf({ u: { '': { limits: { cpu: '1' } }, c: {} } });
    const texts = podStateTexts({ ...NONE, grants, resizes: { u: granting('1') } });
    expect(texts.map((text) => JSON.parse(JSON.parse(text).data).entries.u)).toEqual([
      { ContainerResources: { c: {} }, PodLevelResources: { limits: { cpu: '1' } } },
      { ContainerResources: { c: { requests: { cpu: '1' } } }, PodLevelResources: null },
    ]);
  });

  it('has the limits of the pod for a running container without its own', () => {
    const [allocated, actuated] = podStateTexts({ ...NONE, grants: grantsOf(WITH_POD_LIMITS) });
    expect(actuated).toBe(OF_GO_WITH_POD_LIMITS);
    expect(withPodStates(NONE, [allocated, actuated]).state).toEqual({ ...NONE, handedOver: WITH_POD_LIMITS });
  });

  it('has nothing of a pod that has ended', () => {
    const [text] = podStateTexts({ ...NONE, grants: grantsOf({ u: granting('1') }, { ended: true }) });
    expect(JSON.parse(text).data).toBe('{}');
  });
});

describe('what is read', () => {
  it('is handed over, of pods without a grant here', () => {
    const grants = grantsOf({ known: granting('1') });
    const [allocated, actuated] = [textOf({ known: granting('2'), new: granting('3') }), textOf({})];
    expect(withPodStates({ ...NONE, grants }, [allocated, actuated])).toEqual({
      state: { ...NONE, grants, handedOver: { new: granting('3') } },
      error: '',
    });
  });

  it('has the resources of the running instances where a resize is not done', () => {
    const [allocated, actuated] = [
      textOf({ a: granting('3'), b: granting('1') }),
      textOf({ a: granting('2'), b: granting('1') }),
    ];
    expect(withPodStates(NONE, [allocated, actuated]).state).toEqual({
      ...NONE,
      handedOver: { a: granting('3'), b: granting('1') },
      resizes: { a: granting('2') },
    });
  });

  it.each([
    [null, ''],
    [textOf({}), ''],
    [OF_GO.replace('10m', '11m'), 'checkpoint is corrupted'],
    [fileOf('[]', 0), 'checkpoint is corrupted'],
    ['{"data":', 'unexpected end of JSON input'],
    ['[]', 'json: cannot unmarshal array into Go value of type state.Checkpoint'],
  ])('is nothing of %s', (text, error) => {
    expect(withPodStates(NONE, [text, text])).toEqual({ state: NONE, error });
  });
});
