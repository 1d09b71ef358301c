/** Metrics of a pod and of a Node in the API server, as projections derive them from the kernel's records. */
import { expect, it } from 'vitest';
import { answered, asked, recording, sent } from '../../metrics-recording.ts';

const CREATED_MS = Date.parse('2026-11-21T07:00:00Z');
const IMAGE = 'kubelet/images/image-app%3A1';
const running = { name: 'app', state: { running: { startedAt: '2026-11-21T07:00:20Z' } } };
const pod = (spec: object = {}) => ({
  metadata: { name: 'web', namespace: 'default', uid: 'u1', creationTimestamp: '2026-11-21T07:00:00Z' },
  spec: { containers: [{ name: 'app', image: 'app:1' }], ...spec },
});
const added = (it: object) => sent('kubelet/pods', { type: 'config.pods', op: 'ADD', source: 'api', pods: [it] });
const observed = (status: object) =>
  sent('kubelet/status', { type: 'status.observed', pod: { uid: 'u1' }, seen: { status } });
const request = { uid: 'u1', container: 'app', policy: 'IfNotPresent' };

/** Created at 0 s, seen at 1 s, pulled from 3 to 9 s, an init container from 10 to 14 s, observed running at 22 s. */
function startPod({ turn }: ReturnType<typeof recording>, spec: object = {}) {
  const at = (seconds: number) => CREATED_MS + seconds * 1_000;
  turn(at(1), added(pod(spec)));
  turn(at(2), asked(1, 'host.preparePod', 'kubelet/pods/pod-u1/folders'));
  turn(at(2.5), answered(1), sent(IMAGE, { type: 'image.asked', request }));
  turn(at(3), asked(2, 'cri.pullImage', `${IMAGE}/pull`));
  turn(at(9), answered(2), sent('kubelet/pods/pod-u1', { type: 'image.ready', uid: 'u1', container: 'app' }));
  turn(at(15), observed({ phase: 'Pending', containerStatuses: [{ name: 'app', state: { waiting: {} } }] }));
  const terminated = { startedAt: '2026-11-21T07:00:10Z', finishedAt: '2026-11-21T07:00:14Z' };
  const done = { name: 'init', state: { terminated } };
  const status = { phase: 'Running', containerStatuses: [running], initContainerStatuses: [done] };
  turn(at(22), observed(status));
  turn(at(40), observed(status));
}

it('the start of a pod is measured once, from its creation, with and without images and init containers', async () => {
  const node = recording();
  startPod(node);
  expect(await node.value('kubelet_pod_start_total_duration_seconds', {}, '_sum')).toBe(22);
  expect(await node.value('kubelet_pod_start_total_duration_seconds', {}, '_count')).toBe(1);
  expect(await node.value('kubelet_pod_start_sli_duration_seconds', {}, '_sum')).toBe(22 - 6 - 4);
  expect(await node.value('kubelet_first_network_pod_start_sli_duration_seconds')).toBe(12);
  expect(await node.value('kubelet_pod_worker_start_duration_seconds', {}, '_sum')).toBe(1);
  expect(await node.value('kubelet_pod_worker_duration_seconds', { operation_type: 'create' }, '_sum')).toBe(0.5);
  expect(await node.value('statelet_queue_length')).toBe(7);
});

it('a pod with volumes of others has no part in the objective, and one on the host is no network pod', async () => {
  const stateful = recording();
  startPod(stateful, { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] });
  expect(await stateful.value('kubelet_pod_start_total_duration_seconds', {}, '_count')).toBe(1);
  expect(await stateful.value('kubelet_pod_start_sli_duration_seconds', {}, '_count')).toBe(0);
  const onHost = recording();
  startPod(onHost, { hostNetwork: true });
  expect(await onHost.value('kubelet_pod_start_sli_duration_seconds', {}, '_count')).toBe(1);
  expect(await onHost.value('kubelet_first_network_pod_start_sli_duration_seconds')).toBe(0);
});

it.each([
  ['of the machine', { hostPath: { path: '/x' } }],
  ['of an image', { image: { reference: 'data:1' } }],
])('a pod with a volume %s has no part in the objective', async (_kind, source) => {
  const { value, ...node } = recording();
  startPod({ value, ...node }, { volumes: [{ name: 'data', ...source }] });
  expect(await value('kubelet_pod_start_sli_duration_seconds', {}, '_count')).toBe(0);
});

it('the time between two pulls, and between two init containers, is part of a start', async () => {
  const { turn, value } = recording();
  const at = (seconds: number) => CREATED_MS + seconds * 1_000;
  const pull = (id: number, from: number, to: number) => {
    turn(at(from), sent(IMAGE, { type: 'image.asked', request }), asked(id, 'cri.pullImage', `${IMAGE}/pull`));
    turn(at(to), answered(id), sent('kubelet/pods/pod-u1', { type: 'image.ready', uid: 'u1', container: 'app' }));
  };
  const ran = (name: string, from: number, to: number) => {
    const [startedAt, finishedAt] = [at(from), at(to)].map((ms) => new Date(ms).toISOString());
    return { name, state: { terminated: { startedAt, finishedAt } } };
  };
  const initContainers = [{ name: 'a' }, { name: 'b' }, { name: 'beside', restartPolicy: 'Always' }];
  turn(at(0), added(pod({ initContainers })));
  pull(1, 1, 3);
  pull(2, 10, 11);
  const initContainerStatuses = [ran('a', 4, 6), ran('b', 8, 9), ran('beside', 2, 12)];
  turn(at(20), observed({ phase: 'Running', containerStatuses: [running], initContainerStatuses }));
  expect(await value('kubelet_pod_start_sli_duration_seconds', {}, '_sum')).toBe(20 - 2 - 1 - 2 - 1);
});

const DECIDED = 'kubelet/pods/pod-u1';

it.each([
  ['allocation.granted', 1],
  ['allocation.refused', 0],
])('after %s, workers and containers of %d pod are counted', async (type, count) => {
  const { turn, value } = recording();
  turn(CREATED_MS, added(pod()));
  turn(CREATED_MS + 1, sent(DECIDED, { type, uid: 'u1', rejection: { reason: 'OutOfcpu', message: '' } }));
  turn(CREATED_MS + 2, asked(1, 'host.removePod', `${DECIDED}/files`));
  turn(CREATED_MS + 3, answered(1));
  // As after a resize.
  turn(CREATED_MS + 4, sent(DECIDED, { type, uid: 'u1', rejection: { reason: 'OutOfcpu', message: '' } }));
  expect(await value('kubelet_containers_per_pod_count', {}, '_count')).toBe(count);
  expect(await value('kubelet_pod_worker_start_duration_seconds', {}, '_count')).toBe(count);
  expect((await value('kubelet_pod_worker_duration_seconds', { operation_type: 'create' }, '_count')) ?? 0).toBe(count);
});

it.each([
  ['allocation.granted', 1],
  ['allocation.refused', undefined],
])(
  'after %s, the end of a pod without claims counts as their release when its containers have ended',
  async (type, count) => {
    const { turn, value } = recording();
    turn(CREATED_MS, sent(DECIDED, { type, uid: 'u1', rejection: { reason: 'OutOfcpu', message: '' } }));
    const released = () => value('dra_operations_duration_seconds', { operation_name: 'UnprepareResources' }, '_count');
    turn(CREATED_MS + 1, sent('kubelet/allocation', { type: 'allocation.ended', uid: 'u1' }));
    expect(await released()).toBe(count);
    turn(CREATED_MS + 2, sent('kubelet/status', { type: 'status.removed', uid: 'u1' }));
    expect(await released()).toBe(count);
  },
);

it.each([
  ['ran', { phase: 'Running' }],
  ['was starting', { phase: 'Pending', startTime: '2026-11-21T07:00:01Z' }],
])('a pod that %s before this agent began is no start', async (_how, status) => {
  const { turn, value } = recording();
  turn(CREATED_MS, added({ ...pod(), status }));
  turn(CREATED_MS + 9_000, observed({ phase: 'Running', containerStatuses: [running] }));
  expect(await value('kubelet_pod_start_total_duration_seconds', {}, '_count')).toBe(0);
});

it('a status is in time from its first change to the word of the API server; a refusal is none', async () => {
  const { contexts, turn, value } = recording();
  contexts['kubelet/status/pod-u1'] = { sinceMs: 1_000 };
  turn(1_500, asked(1, 'kube.patch', 'kubelet/status/pod-u1/patch'));
  turn(2_000, { k: 'result', id: 1, error: { message: 'refused' } });
  expect(await value('kubelet_pod_status_sync_duration_seconds', {}, '_count')).toBe(0);
  turn(3_000, asked(2, 'kube.patch', 'kubelet/status/pod-u1/patch'));
  turn(5_000, answered(2));
  expect(await value('kubelet_pod_status_sync_duration_seconds', {}, '_sum')).toBe(4);
});

it('the start of a node is measured when this start made its Node', async () => {
  const ready = { body: { status: { conditions: [{ type: 'Ready', status: 'True' }] } } };
  const unready = { body: { status: { conditions: [{ type: 'Ready', status: 'False' }] } } };
  const report = 'kubelet/nodeStatus/patch';
  const { turn, value } = recording();
  const now = Date.now();
  turn(now, { k: 'header', t: now });
  turn(now + 2_000, asked(1, 'kube.create', 'kubelet/nodeStatus/registration/create'));
  turn(now + 3_000, answered(1));
  turn(now + 4_000, asked(2, 'kube.patch', report, unready));
  turn(now + 5_000, answered(2), asked(3, 'kube.patch', report, ready));
  turn(now + 9_000, answered(3));
  expect(await value('kubelet_node_startup_pre_registration_duration_seconds')).toBe(2);
  expect(await value('kubelet_node_startup_registration_duration_seconds')).toBe(1);
  expect(await value('kubelet_node_startup_post_registration_duration_seconds')).toBe(6);
  const before = await value('kubelet_node_startup_pre_kubelet_duration_seconds');
  expect(await value('kubelet_node_startup_duration_seconds')).toBeCloseTo(before! + 9, 3);
  const joined = recording();
  joined.turn(now, asked(1, 'kube.patch', report, ready));
  joined.turn(now + 1, answered(1));
  expect(await joined.value('kubelet_node_startup_registration_duration_seconds')).toBe(0);
});

it('a report that the watch of the Node makes superfluous counts as made, one that is replaced does not', async () => {
  const ready = { body: { status: { conditions: [{ type: 'Ready', status: 'True' }] } } };
  const report = 'kubelet/nodeStatus/patch';
  const { turn, value } = recording();
  const now = Date.now();
  turn(now, { k: 'header', t: now });
  turn(now + 1_000, asked(1, 'kube.create', 'kubelet/nodeStatus/registration/create'));
  turn(now + 2_000, answered(1), asked(2, 'kube.patch', report, ready));
  turn(now + 3_000, { k: 'cancel', id: 2 }, asked(3, 'kube.patch', report, ready));
  expect(await value('kubelet_node_startup_post_registration_duration_seconds')).toBe(0);
  turn(now + 7_000, { k: 'cancel', id: 3 });
  expect(await value('kubelet_node_startup_post_registration_duration_seconds')).toBe(5);
});

it('a pod that is refused, unwanted, or wanted again counts once', async () => {
  const { contexts, turn, value } = recording();
  const refused = (uid: string, reason: string) =>
    sent(`kubelet/pods/pod-${uid}`, { type: 'allocation.refused', uid, rejection: { reason } });
  turn(1, refused('u1', 'OutOfcpu'), refused('u2', 'OutOfexample.com/gpu'), refused('u1', 'OutOfcpu'));
  turn(1, refused('u4', 'NodePorts'), refused('u5', 'NodeAffinity'), refused('u6', 'NodeShutdown'));
  expect(await value('kubelet_admission_rejections_total', { reason: 'OutOfcpu' })).toBe(1);
  expect(await value('kubelet_admission_rejections_total', { reason: 'OutOfExtendedResources' })).toBe(1);
  expect(await value('kubelet_admission_rejections_total', { reason: 'NodeShutdown' })).toBe(1);
  expect(await value('kubelet_admission_rejections_total', { reason: 'Other' })).toBe(2);
  contexts['kubelet/pods/pod-u3'] = { uid: 'u3', pod: null, runtime: { sandboxes: [{}] } };
  turn(2, sent('kubelet/pods/pod-u3', { type: 'pod.kill' }), sent('kubelet/pods/pod-u3', { type: 'pod.kill' }));
  expect(await value('kubelet_orphaned_runtime_pods_total')).toBe(1);
  const removed = { type: 'config.pods', op: 'REMOVE', source: 'api', pods: [{ uid: 'u1' }] };
  turn(3, added(pod()), sent('kubelet/pods', removed), added(pod()));
  expect(await value('kubelet_restarted_pods_total', { static: '' })).toBe(1);
  turn(4, sent('kubelet/pods', removed), sent('kubelet/status', { type: 'status.removed', uid: 'u1' }));
  turn(5, added(pod()));
  expect(await value('kubelet_restarted_pods_total', { static: '' })).toBe(1);
});

it('volumes count by kind, failures apart, and end to end with their failures', async () => {
  const { contexts, turn, value } = recording();
  const volumes = [
    { name: 'a', emptyDir: {} },
    { name: 'b', configMap: { name: 'b' } },
    { name: 'unused', secret: { secretName: 's' } },
  ];
  const containers = [{ name: 'app', volumeMounts: [{ name: 'a' }, { name: 'b' }] }];
  contexts['kubelet/pods/pod-u1'] = { uid: 'u1', pod: pod({ volumes, containers }) };
  const setUp = (id: number) =>
    asked(id, 'volume.setUp', 'kubelet/pods/pod-u1/volumes/setUp', {
      volumes: [
        { kind: 'folder', name: 'a', groupId: 7 },
        { kind: 'files', name: 'b', groupId: null },
        { kind: 'local', name: 'c', ownership: null },
        { kind: 'nfs', name: 'd' },
      ],
    });
  turn(0, setUp(1));
  turn(1_000, answered(1, { failed: [{ name: 'b', message: 'no' }] }));
  turn(3_000, setUp(2));
  turn(5_000, answered(2, { failed: [] }));
  const count = (volume_plugin: string, status: string) =>
    value('storage_operation_duration_seconds', { volume_plugin, status, operation_name: 'volume_mount' }, '_count');
  expect(await count('kubernetes.io/empty-dir', 'success')).toBe(2);
  expect(await count('kubernetes.io/configmap', 'success')).toBe(1);
  expect(await count('kubernetes.io/configmap', 'fail-unknown')).toBe(1);
  const overall = { plugin_name: 'kubernetes.io/configmap', operation_name: 'overall_volume_mount' };
  expect(await value('volume_operation_total_seconds', overall, '_sum')).toBe(5);
  expect(await count('kubernetes.io/local-volume', 'success'), 'a claim that is a folder of this machine').toBe(2);
  expect(await count('kubernetes.io/nfs', 'success'), 'one on a server').toBe(2);
  const other = (volume_plugin: string, operation_name: string) =>
    value('storage_operation_duration_seconds', { volume_plugin, operation_name, status: 'success' }, '_count');
  expect(await other('kubernetes.io/empty-dir', 'verify_controller_attached_volume')).toBe(1);
  expect(await other('kubernetes.io/empty-dir', 'volume_apply_access_control')).toBe(2);
  expect(await other('kubernetes.io/configmap', 'volume_apply_access_control')).toBeUndefined();
  turn(9_000, asked(3, 'volume.tearDown', 'kubelet/pods/pod-u1/tearDown'));
  turn(9_500, answered(3));
  const unmount = { operation_name: 'volume_unmount', volume_plugin: 'kubernetes.io/empty-dir', status: 'success' };
  expect(await value('storage_operation_duration_seconds', unmount, '_sum')).toBe(0.5);
  const unused = { volume_plugin: 'kubernetes.io/secret' };
  expect(
    await value('storage_operation_duration_seconds', unused, '_count'),
    'of what no container has',
  ).toBeUndefined();
});

it('volumes without a request count with the sandbox of their pod, and those of a missing object as failures', async () => {
  const { contexts, turn, value } = recording();
  const volumes = [
    { name: 'h', hostPath: { path: '/tmp' } },
    { name: 'i', image: { reference: 'app:1' } },
    { name: 'c', configMap: { name: 'absent' } },
  ];
  const containers = [{ name: 'app', volumeMounts: volumes.map(({ name }) => ({ name })) }];
  contexts['kubelet/pods/pod-u1'] = { uid: 'u1', pod: pod({ volumes, containers }) };
  const count = (plugin: string, operation_name: string, status = 'success') =>
    value(
      'storage_operation_duration_seconds',
      { volume_plugin: `kubernetes.io/${plugin}`, operation_name, status },
      '_count',
    );
  const reported = (message: string) => ({
    ...sent('kubelet/eventRecorder', { type: 'event.recorded', reason: 'FailedMount', message }),
    from: 'kubelet/pods/pod-u1/volumes',
  });
  turn(0, reported('MountVolume.SetUp failed for volume "c" : configmap "absent" not found'), reported('Unable'));
  expect(await count('configmap', 'volume_mount', 'fail-unknown')).toBe(1);
  const sandbox = (id: number) => asked(id, 'cri.runPodSandbox', 'kubelet/pods/pod-u1/run');
  turn(1, sandbox(1));
  turn(2, answered(1), sandbox(2));
  for (const plugin of ['host-path', 'image']) {
    expect(await count(plugin, 'verify_controller_attached_volume')).toBe(1);
    expect(await count(plugin, 'volume_mount')).toBe(1);
    expect(await value('volume_operation_total_seconds', { plugin_name: `kubernetes.io/${plugin}` }, '_count')).toBe(1);
    expect(await count(plugin, 'volume_unmount')).toBeUndefined();
  }
  turn(3, sent('kubelet/status', { type: 'status.removed', uid: 'u1' }));
  expect(await count('image', 'volume_unmount')).toBe(1);
  expect(await count('configmap', 'volume_unmount')).toBeUndefined();
});

it('work counts by its cause: the end of a pod, and of one that only the runtime has', async () => {
  const { contexts, turn, value } = recording();
  contexts['kubelet/pods/pod-u1'] = { uid: 'u1', pod: pod({}) };
  contexts['kubelet/pods/pod-u2'] = { uid: 'u2', pod: null };
  for (const [id, uid] of [
    [1, 'u1'],
    [2, 'u2'],
  ] as const) {
    turn(
      0,
      sent(`kubelet/pods/pod-${uid}`, { type: 'pod.kill' }),
      asked(id, 'cri.stopContainer', `kubelet/pods/pod-${uid}/x`),
    );
    turn(1, answered(id));
  }
  for (const operation_type of ['terminated', 'kill'])
    expect(await value('kubelet_pod_worker_duration_seconds', { operation_type }, '_count')).toBe(1);
});

it('a failed hook after the start is a failed start', async () => {
  const { turn, value } = recording();
  const failed = { type: 'event.recorded', reason: 'FailedPostStartHook', message: 'PostStartHook failed' };
  turn(0, { ...sent('kubelet/eventRecorder', failed), from: 'kubelet/pods/pod-u1/container-app' });
  const labels = { container_type: 'container', code: 'PostStartHookError' };
  expect(await value('kubelet_started_containers_errors_total', labels)).toBe(1);
});

it('a debug container that ended is counted as one', async () => {
  const { turn, value } = recording();
  const terminated = { containerID: 'c1', exitCode: 3, reason: 'Error' };
  const status = { phase: 'Running', ephemeralContainerStatuses: [{ name: 'debug', state: { terminated } }] };
  const changed = sent('kubelet/status', { type: 'status.changed', pod: { uid: 'u1' }, status });
  turn(1, changed);
  turn(2, changed);
  const labels = { container_type: 'ephemeral_container', exit_code: '3', reason: 'Error' };
  expect(await value('kubelet_terminated_containers_total', labels)).toBe(1);
});
