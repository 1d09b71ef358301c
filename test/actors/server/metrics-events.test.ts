/** Each counter changes with its own event only: images, hooks, certificates, resizes, evictions, CPUs. */
import { describe, expect, it } from 'vitest';
import { answered, asked, recording, sent } from './metrics-recording.ts';

const IMAGE = 'kubelet/images/image-app%3A1';
const POD = 'kubelet/pods/pod-u1';
const CONTAINER = `${POD}/container-app`;
const failed = (id: number, message = 'no') => ({ k: 'result', id, error: { message } });
const state = (at: string, value: unknown) => ({ k: 'state', at, value });

describe('images', () => {
  const MEBIBYTE = 1_024 ** 2;
  const pull = ({ turn }: ReturnType<typeof recording>, size: number, seconds: number) => {
    turn(0, asked(1, 'cri.pullImage', `${IMAGE}/pull`));
    turn(1_000, failed(1), asked(2, 'cri.pullImage', `${IMAGE}/pull`));
    turn(seconds * 1_000 - 1, answered(2), asked(3, 'cri.imageStatus', `${IMAGE}/verify`));
    turn(seconds * 1_000, answered(3, { image: { size: String(size) } }));
  };

  it.each([
    [1, '0-10MB'],
    [10 * MEBIBYTE, '0-10MB'],
    [10 * MEBIBYTE + 1, '10MB-100MB'],
    [6_000 * MEBIBYTE, '5GB-10GB'],
    [200_000 * MEBIBYTE, 'GT100GB'],
    [0, 'N/A'],
  ])('of %i bytes take their time under the label %s', async (size, image_size_in_bytes) => {
    const node = recording();
    pull(node, size, 7);
    expect(await node.value('kubelet_image_pull_duration_seconds', { image_size_in_bytes }, '_sum')).toBe(7);
    expect(await node.value('kubelet_image_pull_duration_seconds', {}, '_count')).toBe(1);
  });

  it('are not pulled when the pull failed and an older one is present', async () => {
    const { turn, value } = recording();
    turn(0, asked(1, 'cri.pullImage', `${IMAGE}/pull`));
    turn(1_000, failed(1), asked(2, 'cri.imageStatus', `${IMAGE}/status`));
    turn(2_000, answered(2, { image: { size: '1' } }));
    expect(await value('kubelet_image_pull_duration_seconds', {}, '_count')).toBeUndefined();
  });

  it('are cleared away for their age or for the room', async () => {
    const { contexts, turn, value } = recording();
    const policy = { maxAgeMs: 1_000 };
    contexts['kubelet/imageGC'] = { policy, startedAtMs: 0, usedAtMs: { young: 9_500 } };
    const remove = (id: number, image: string) =>
      asked(id, 'cri.removeImage', 'kubelet/imageGC/removeImage', { image });
    turn(10_000, remove(1, 'old'), remove(2, 'young'), remove(3, 'used'));
    turn(10_001, answered(1), answered(2), failed(3));
    expect(await value('kubelet_image_garbage_collected_total', { reason: 'age' })).toBe(1);
    expect(await value('kubelet_image_garbage_collected_total', { reason: 'space' })).toBe(1);
  });

  it('that are there are checked for the right to them, by policy, record and credentials', async () => {
    const { contexts, turn, value } = recording();
    const request = (uid: string) =>
      sent(IMAGE, { type: 'image.asked', request: { uid, container: 'app', policy: 'IfNotPresent' } });
    const check = (id: number, uid: string, policy: string, record: unknown) => {
      const known = { intended: false, record };
      contexts[IMAGE] = { verification: { policy, allowlist: [] }, place: { image: 'app:1' }, record: known };
      turn(id, request(uid), asked(id, 'images.pullRecord', `${IMAGE}/record`));
      turn(id, answered(id, known));
    };
    check(1, 'a', 'NeverVerify', null);
    check(2, 'b', 'AlwaysVerify', null);
    turn(3, sent('kubelet/pods/pod-b', { type: 'image.failed', uid: 'b', container: 'app' }));
    const checks = (result: string) => value('kubelet_imagemanager_image_mustpull_checks_total', { result });
    expect(await checks('credentialPolicyAllowed')).toBe(1);
    expect(await checks('mustAuthenticate')).toBe(2);
    turn(4, asked(4, 'images.pullRecord', `${IMAGE}/record`));
    turn(5, failed(4));
    expect(await checks('error')).toBe(1);
  });
});

describe('requests for images', () => {
  const key = { uid: 'u1', container: 'app' };
  const answerOf = (type: string) => sent(POD, { type, ...key });

  it.each([
    ['Always', { there: true, answer: 'image.ready' }, 'unknown', 'true'],
    ['IfNotPresent', { there: true, answer: 'image.ready' }, 'true', 'false'],
    ['IfNotPresent', { there: true, answer: 'image.failed' }, 'true', 'true'],
    ['IfNotPresent', { there: false, answer: 'image.failed' }, 'false', 'true'],
    ['Never', { there: false, answer: 'image.failed' }, 'false', 'unknown'],
    ['Never', { there: true, answer: 'image.failed' }, 'true', 'true'],
  ])('of policy %s (%j) say whether it was there: %s, and whether it had to be pulled: %s', async (...row) => {
    const [policy, { there, answer }, present_locally, pull_required] = row;
    const { turn, value } = recording();
    turn(1, sent('kubelet/images', { type: 'image.wanted', ...key, policy }));
    turn(2, sent(IMAGE, { type: 'image.asked', request: { ...key, policy } }));
    turn(3, asked(1, 'cri.imageStatus', `${IMAGE}/status`));
    turn(4, answered(1, { image: there ? { size: '1' } : null }), answerOf(answer));
    const labels = { present_locally, pull_policy: policy.toLowerCase(), pull_required };
    expect(await value('kubelet_image_manager_ensure_image_requests_total', labels)).toBe(1);
  });

  it('that are answered during a pull of another pod had a present image', async () => {
    const { turn, value } = recording();
    turn(1, asked(1, 'cri.pullImage', `${IMAGE}/pull`));
    turn(2, sent(IMAGE, { type: 'image.asked', request: { ...key, policy: 'IfNotPresent' } }), answerOf('image.ready'));
    const labels = { present_locally: 'true', pull_policy: 'ifnotpresent', pull_required: 'false' };
    expect(await value('kubelet_image_manager_ensure_image_requests_total', labels)).toBe(1);
  });

  it('whose name is none say nothing of either', async () => {
    const { turn, value } = recording();
    turn(1, sent('kubelet/images', { type: 'image.wanted', ...key, policy: 'Always' }), answerOf('image.failed'));
    const labels = { present_locally: 'unknown', pull_policy: 'always', pull_required: 'unknown' };
    expect(await value('kubelet_image_manager_ensure_image_requests_total', labels)).toBe(1);
  });
});

describe('pods and containers', () => {
  const pod = (spec: object) => ({ uid: 'u1', pod: { spec: { containers: [{ name: 'app' }], ...spec } } });

  it('that start, or fail to, count by their kind', async () => {
    const { contexts, turn, value } = recording();
    contexts[POD] = pod({ hostUsers: false, initContainers: [{ name: 'init' }] });
    turn(0, asked(1, 'cri.runPodSandbox', `${POD}/sandbox`, { runtimeHandler: 'kata' }));
    turn(2_000, failed(1), asked(2, 'cri.runPodSandbox', `${POD}/sandbox`, { runtimeHandler: 'kata' }));
    turn(3_000, answered(2), asked(3, 'cri.startContainer', `${POD}/container-init/start`));
    turn(3_001, failed(3));
    expect(await value('kubelet_started_pods_total')).toBe(2);
    expect(await value('kubelet_started_pods_errors_total')).toBe(1);
    expect(await value('kubelet_started_user_namespaced_pods_total')).toBe(2);
    expect(await value('kubelet_started_user_namespaced_pods_errors_total')).toBe(1);
    expect(await value('kubelet_run_podsandbox_errors_total', { runtime_handler: 'kata' })).toBe(1);
    expect(await value('kubelet_run_podsandbox_duration_seconds', { runtime_handler: 'kata' }, '_sum')).toBe(3);
    const errors = { container_type: 'init_container', code: 'RunContainerError' };
    expect(await value('kubelet_started_containers_errors_total', errors)).toBe(1);
  });

  it('begin with their image, and what keeps them from it is an error', async () => {
    const { contexts, turn, value } = recording();
    contexts[POD] = pod({});
    const wanted = (container: string) => sent('kubelet/images', { type: 'image.wanted', uid: 'u1', container });
    const refused = (container: string, reason: string) =>
      sent(POD, { type: 'image.failed', uid: 'u1', container, reason });
    turn(1, wanted('app'), wanted('app/volume'), refused('app', 'ErrImageNeverPull'), refused('app/volume', 'x'));
    turn(2, wanted('app'), sent(CONTAINER, { type: 'container.refused', reason: 'CreateContainerConfigError' }));
    expect(await value('kubelet_started_containers_total', { container_type: 'container' })).toBe(2);
    const errors = (code: string) => value('kubelet_started_containers_errors_total', { code });
    expect(await errors('ErrImageNeverPull')).toBe(1);
    expect(await errors('CreateContainerConfigError')).toBe(1);
    expect(await errors('x')).toBeUndefined();
  });

  it('have their volumes of images counted when they are created', async () => {
    const { turn, value } = recording();
    const mounts = [{ image: { image: 'sha256:1' } }, { host_path: '/x', image: null }];
    const create = (id: number) => asked(id, 'cri.createContainer', `${CONTAINER}/create`, { config: { mounts } });
    turn(0, create(1), create(2));
    turn(1, answered(1), failed(2));
    expect(await value('kubelet_image_volume_requested_total')).toBe(2);
    expect(await value('kubelet_image_volume_mounted_succeed_total')).toBe(1);
    expect(await value('kubelet_image_volume_mounted_errors_total')).toBe(1);
  });

  it('have hooks that fall back to HTTP, and hooks whose sleep is cut short', async () => {
    const { contexts, turn, value } = recording();
    contexts[CONTAINER] = { wanted: { postStart: null, preStop: { kind: 'sleep', seconds: 10 } } };
    const sleeping = state(CONTAINER, { stopping: { hook: 'sleeping' } });
    turn(0, sleeping);
    turn(10_000, state(CONTAINER, { stopping: 'asking' }));
    expect(await value('kubelet_sleep_action_terminated_early_total')).toBe(0);
    turn(20_000, sleeping);
    turn(24_000, state(CONTAINER, { stopping: 'asking' }));
    expect(await value('kubelet_sleep_action_terminated_early_total')).toBe(1);
    turn(
      30_000,
      asked(1, 'probe.httpHook', `${CONTAINER}/preStop`),
      asked(2, 'probe.httpHook', `${CONTAINER}/preStop`),
    );
    turn(30_001, answered(1, { fellBack: false }), answered(2, { fellBack: true }));
    expect(await value('kubelet_lifecycle_handler_http_fallbacks_total')).toBe(1);
  });

  it('go for others by the resource that these lack, and for signals with the age of the observation', async () => {
    const { contexts, turn, value } = recording();
    const verdict = { reason: 'Preempting', message: '', published: 'once' };
    turn(0, sent('kubelet/pods', { type: 'pods.kill', uid: 'a', verdict, shortOf: 'memory' }));
    expect(await value('kubelet_preemptions', { preemption_signal: 'memory' })).toBe(1);
    turn(1_000, asked(1, 'stats.observe', 'kubelet/eviction/observe'));
    turn(1_200, answered(1));
    contexts['kubelet/eviction'] = { evictions: { 'memory.available': 1, 'emptydirfs.limit': 1 } };
    turn(1_500, { ...sent('kubelet/pods', { type: 'pods.kill', uid: 'b', verdict }), from: 'kubelet/eviction' });
    const age = (eviction_signal: string) => value('kubelet_eviction_stats_age_seconds', { eviction_signal }, '_sum');
    expect(await age('memory.available')).toBe(0.5);
    expect(await age('emptydirfs.limit')).toBeUndefined();
    expect(await value('kubelet_preemptions', { preemption_signal: '' })).toBeUndefined();
  });
});

describe('certificates', () => {
  const facts = (notBeforeMs: number, notAfterMs: number) => ({ notBeforeMs, notAfterMs });
  const rotation = (of: string, value: string) =>
    state(`kubelet/${of}`, { working: { rotation: value, guarding: 'valid' } });
  const took = (of: string, step: string, output: unknown) => ({
    k: 'result',
    id: 1,
    at: `kubelet/${of}/${step}`,
    name: `certificate.${step}`,
    output,
  });

  it('without a manager have no families', async () => {
    expect(await recording().value('kubelet_certificate_manager_client_ttl_seconds')).toBeUndefined();
  });

  it('of the client end some time, and each failure to renew one counts once', async () => {
    const { turn, value } = recording();
    turn(0, rotation('clientCertificate', 'loading'));
    expect(await value('kubelet_certificate_manager_client_ttl_seconds')).toBe(Number.POSITIVE_INFINITY);
    turn(1, took('clientCertificate', 'load', { certificate: facts(0, Date.now() + 90_500) }));
    expect(await value('kubelet_certificate_manager_client_ttl_seconds')).toBe(90);
    const failures = () => value('kubelet_certificate_manager_client_expiration_renew_errors');
    turn(2, rotation('clientCertificate', 'backingOff'));
    turn(3, rotation('clientCertificate', 'backingOff'));
    expect(await failures()).toBe(1);
    turn(4, rotation('clientCertificate', 'generating'));
    turn(5, rotation('clientCertificate', 'backingOff'));
    expect(await failures()).toBe(2);
    expect(await value('kubelet_server_expiration_renew_errors')).toBeUndefined();
  });

  it('of the server live until the next one', async () => {
    const { turn, value } = recording();
    turn(0, took('servingCertificate', 'store', facts(100_000, Date.now() + 1_000)));
    expect(await value('kubelet_certificate_manager_server_rotation_seconds', {}, '_count')).toBe(0);
    turn(400_000, took('servingCertificate', 'store', facts(400_000, Date.now() - 5_000)));
    expect(await value('kubelet_certificate_manager_server_rotation_seconds', {}, '_sum')).toBe(300);
    expect(await value('kubelet_certificate_manager_server_ttl_seconds')).toBeLessThan(0);
  });
});

describe('resizes', () => {
  const want = (app: object) =>
    sent('kubelet/allocation', { type: 'allocation.wanted', request: { uid: 'u1' }, allocation: { app } });
  const answer = (type: string, more: object = {}) => sent('kubelet/pods/pod-u1', { type, uid: 'u1', ...more });
  const requested = (node: ReturnType<typeof recording>, resource: string, requirement: string, operation: string) =>
    node.value('kubelet_container_requested_resizes_total', { resource, requirement, operation });

  it('count by what is asked for in the place of what', async () => {
    const node = recording();
    node.turn(0, want({ requests: { cpu: '1', memory: '1Gi' }, limits: { cpu: '2' } }), answer('allocation.granted'));
    node.turn(1, want({ requests: { cpu: '1500m', memory: '1024Mi' }, limits: { memory: '2Gi' } }));
    expect(await requested(node, 'cpu', 'requests', 'increase')).toBe(1);
    expect(await requested(node, 'cpu', 'limits', 'remove')).toBe(1);
    expect(await requested(node, 'memory', 'limits', 'add')).toBe(1);
    expect(await requested(node, 'memory', 'requests', 'increase')).toBeUndefined();
    node.turn(2, want({ requests: { cpu: '1', memory: '1Gi' }, limits: { memory: '2Gi' } }));
    expect(await requested(node, 'cpu', 'requests', 'decrease')).toBe(1);
  });

  it('that cannot be had count once for each reason, and those that had to wait by what ended the wait', async () => {
    const { turn, value } = recording();
    const refusal = (reason: string, message: string) => answer('allocation.pending', { refusal: { reason, message } });
    const never = refusal(
      'Infeasible',
      'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
    );
    turn(0, want({}), answer('allocation.granted'));
    turn(1, want({ requests: { cpu: '9' } }), never);
    turn(2, never);
    const infeasible = (reason_detail: string) => value('kubelet_pod_infeasible_resizes_total', { reason_detail });
    expect(await infeasible('guaranteed_pod_cpu_manager_static_policy')).toBe(1);
    const accepted = (retry_trigger: string) => value('kubelet_pod_deferred_accepted_resizes_total', { retry_trigger });
    turn(3, refusal('Infeasible', 'In-place resize of containers with swap is not supported.'));
    expect(await infeasible('swap_limitation')).toBe(1);
    const ofOther = (type: string) => sent('kubelet/allocation', { type, uid: 'u2', request: { uid: 'u2' } });
    for (const [retry_trigger, cause, times] of [
      ['pod_terminated', ofOther('allocation.ended'), 1],
      ['pods_removed', ofOther('allocation.released'), 1],
      ['pod_updated', ofOther('allocation.wanted'), 1],
      ['pod_updated', want({ requests: { cpu: '1' } }), 2],
    ] as const) {
      turn(4, want({ requests: { cpu: '2' } }), refusal('Deferred', ''));
      turn(4, cause, answer('allocation.granted'));
      expect(await accepted(retry_trigger)).toBe(times);
    }
    turn(5, want({ requests: { cpu: '3' } }), refusal('Deferred', ''));
    turn(6, answer('allocation.granted'));
    turn(7, answer('allocation.granted'));
    expect(await accepted('periodic_retry')).toBe(1);
  });

  it('take their time from the first step to the last, and a step that fails is an end too', async () => {
    const { turn, value } = recording();
    const resized = (actuated: object | null) =>
      sent('kubelet/softState', { type: 'softState.resized', uid: 'u1', actuated });
    const took = (success: string) => value('kubelet_pod_resize_duration_milliseconds', { success }, '_sum');
    const state = (resizing: string) => ({ k: 'state', at: POD, value: { alive: { resizing } } });
    turn(0, resized({}), state('stepping'));
    turn(30, state('failing'));
    expect(await took('false'), 'also if no call failed, but too much memory is in use').toBe(30);
    turn(60, state('awaiting'));
    turn(100, resized({}));
    turn(150, resized(null));
    expect(await took('true')).toBe(50);
  });
});

describe('what is kept for single containers', () => {
  const wanted = (uid: string, containers: readonly object[]) =>
    sent('kubelet/allocation', { type: 'allocation.wanted', request: { uid, containers }, allocation: {} });
  const granted = (uid: string, more: object = {}) =>
    sent(`kubelet/pods/pod-${uid}`, { type: 'allocation.granted', uid, ...more });
  const refused = (uid: string, reason: string, message: string) =>
    sent(`kubelet/pods/pod-${uid}`, { type: 'allocation.refused', uid, rejection: { reason, message } });
  const cpus = { container: 'app', isInit: false, cpus: 2 };
  const admission = {
    cpuManager: { wholeCores: true, cpus: [] },
    memoryManager: {},
    topology: { policy: 'single-numa-node', scope: 'container' },
  };

  it('counts where a manager keeps it, each pod once', async () => {
    const { contexts, turn, value } = recording();
    contexts['kubelet/allocation'] = { settings: { admission } };
    turn(0, wanted('a', [cpus, { ...cpus, container: 'b', memory: { memory: '1' } }]), granted('a'));
    turn(1, wanted('a', [cpus]), granted('a'));
    turn(2, wanted('b', [cpus]), refused('b', 'SMTAlignmentError', 'SMT Alignment Error: requested 3 cpus'));
    turn(3, wanted('c', [cpus]), refused('c', 'TopologyAffinityError', 'Resources cannot be allocated'));
    expect(await value('kubelet_cpu_manager_pinning_requests_total')).toBe(3);
    expect(await value('kubelet_cpu_manager_pinning_errors_total')).toBe(1);
    expect(await value('kubelet_memory_manager_pinning_requests_total')).toBe(1);
    expect(await value('kubelet_memory_manager_pinning_errors_total')).toBe(0);
    expect(await value('kubelet_topology_manager_admission_requests_total')).toBe(3);
    expect(await value('kubelet_topology_manager_admission_errors_total')).toBe(2);
    expect(await value('kubelet_topology_manager_admission_duration_ms', {}, '_sum')).toBeCloseTo(0.6);
    const labels = (boundary: string) => ({ scope: 'container', boundary });
    expect(await value('kubelet_container_aligned_compute_resources_count', labels('numa_node'))).toBe(2);
    expect(await value('kubelet_container_aligned_compute_resources_count', labels('physical_cpu'))).toBe(2);
    expect(await value('kubelet_container_aligned_compute_resources_failure_count', labels('numa_node'))).toBe(1);
    expect(await value('kubelet_container_aligned_compute_resources_failure_count', labels('physical_cpu'))).toBe(1);
  });

  it.each([
    ['no CPU', 'Allocate failed due to not enough cpus available to satisfy request', [2, 1, 0, 0]],
    ['no memory', 'Allocate failed due to [memorymanager] failed to get the default NUMA affinity', [2, 0, 1, 1]],
    ['no device', 'Allocate failed due to no healthy devices present', [1, 0, 0, 0]],
  ])('was not asked of managers after the one that has %s', async (_, message, counts) => {
    const { contexts, turn, value } = recording();
    contexts['kubelet/allocation'] = { settings: { admission } };
    const last = { ...cpus, container: 'b', memory: { memory: '1' }, devices: { 'a.b/c': 1 } };
    turn(0, wanted('a', [cpus, last]), refused('a', 'UnexpectedAdmissionError', message));
    turn(1, wanted('b', [cpus]), refused('b', 'Evicted', 'The node had condition: [MemoryPressure]. '));
    const families = ['cpu_manager_pinning_requests', 'cpu_manager_pinning_errors'];
    families.push('memory_manager_pinning_requests', 'memory_manager_pinning_errors');
    expect(await Promise.all(families.map((name) => value(`kubelet_${name}_total`)))).toEqual(counts);
    expect(await value('kubelet_topology_manager_admission_requests_total')).toBe(1);
    expect(await value('kubelet_topology_manager_admission_errors_total')).toBe(1);
  });

  it('counts containers whose CPUs share a cache', async () => {
    const { contexts, turn, value } = recording();
    const cpuManager = { cpus: [0, 1, 2].map((id) => ({ id, socket: 0, cache: id === 2 ? 1 : 0 })) };
    contexts['kubelet/allocation'] = { settings: { admission: { cpuManager } } };
    const exclusive = { app: '0-1', b: '1-2' };
    turn(0, wanted('a', [cpus]), granted('a', { cpus: { exclusive } }));
    const labels = { scope: 'container', boundary: 'uncore_cache' };
    expect(await value('kubelet_container_aligned_compute_resources_count', labels)).toBe(1);
  });

  it('is nothing where everything is shared', async () => {
    const { turn, value } = recording();
    turn(0, wanted('a', [cpus]), granted('a'));
    expect(await value('kubelet_cpu_manager_pinning_requests_total')).toBe(0);
    expect(await value('kubelet_topology_manager_admission_requests_total')).toBe(1);
  });
});

it('what an earlier agent left of volumes is counted once after the start', async () => {
  const { contexts, turn, value } = recording();
  turn(0, asked(1, 'volume.podFolders', 'kubelet/pods/podFolders'), asked(2, 'csi.inventory', 'kubelet/csi/inventory'));
  turn(1, answered(1, { uids: ['u1', 'u2'] }), answered(2, { volumes: [{}, {}], devices: [], errors: ['x'] }));
  expect(await value('reconstruct_volume_operations_total')).toBe(3);
  expect(await value('reconstruct_volume_operations_errors_total')).toBe(1);
  contexts[POD] = { uid: 'u1', pod: null };
  contexts['kubelet/pods/pod-u2'] = { uid: 'u2', pod: { spec: { containers: [] } } };
  const tearDown = (id: number, pod: string) => asked(id, 'volume.tearDown', `${pod}/tearDown`);
  turn(2, tearDown(3, POD), tearDown(4, 'kubelet/pods/pod-u2'));
  turn(3, failed(3), answered(4), tearDown(5, POD));
  expect(await value('kubelet_orphan_pod_cleaned_volumes_errors')).toBe(1);
  turn(4, answered(5));
  expect(await value('kubelet_orphan_pod_cleaned_volumes')).toBe(1);
  expect(await value('kubelet_orphan_pod_cleaned_volumes_errors')).toBe(0);
});

it('a runtime that does not say its driver is one that the next release will not take', async () => {
  const { turn, value } = recording();
  turn(0, asked(1, 'cri.runtimeConfig', 'kubelet/runtimeService/runtimeConfig'));
  turn(1, answered(1, { cgroupDriver: null }));
  expect(await value('kubelet_cri_losing_support', { version: '1.37.0' })).toBe(1);
  turn(2, asked(2, 'cri.runtimeConfig', 'kubelet/runtimeService/runtimeConfig'));
  turn(3, answered(2, { cgroupDriver: 'systemd' }));
  expect(await value('kubelet_cri_losing_support')).toBeUndefined();
});
