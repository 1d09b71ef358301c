/** Pods on a node that counts resources: proves A1 to A5 of `allocation.ts` and G1 to G3 of `pod-allocation.ts`. */
import { afterEach, describe, expect, it } from 'vitest';
import { allocationMachine } from '../../../../../src/machines/charts/pods/allocation/allocation.ts';
import { admissionRequest, allocationOf } from '../../../../../src/machines/model/allocation/request.ts';
import type { Pod } from '../../../../../src/machines/model/api/pod.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { runUnder } from '../../../../support/answering-world.ts';
import { ADMISSION, apiPod, bootCountingNode, removePod, sendPods } from '../../../../support/counting-node.ts';
import { manifest, PodsNode, settings } from '../../../../support/pods-node.ts';

let node: PodsNode;
const boot = (change: Partial<NodeSettings> = {}): PodsNode => (node = bootCountingNode(change));

/** The next agent on the same machine, whose resources have changed. */
function restartOn(admission: NonNullable<NodeSettings['admission']>): void {
  node = node.restart(0, { admission, makesPodCgroups: true });
}

interface Wanted {
  readonly cpu?: string;
  readonly priority?: number;
  readonly spec?: object;
  readonly generation?: number;
}

function asking(uid: string, { cpu, priority, spec = {}, generation = 1 }: Wanted = {}): Pod {
  const resources = cpu === undefined ? {} : { requests: { cpu } };
  const containers = [{ name: 'app', image: 'app:1', resources }];
  return apiPod(uid, { containers, ...(priority === undefined ? {} : { priority }), ...spec }, generation);
}

const send = (op: 'ADD' | 'UPDATE', ...pods: Pod[]) => sendPods(node, op, ...pods);
const remove = (uid: string) => removePod(node, uid);
const running = (uid: string) => () => node.phase(uid) === 'Running';

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('a pod that the node does not take', () => {
  const rejected = { nodeSelector: { zone: 'b' } };

  it('fails with the reason, gets no sandbox, folder or group, and one event', () => {
    boot();
    send('ADD', asking('u1', { spec: rejected }));
    node.run(5_000);
    expect(node.status('u1')).toEqual({
      observedGeneration: 1,
      phase: 'Failed',
      reason: 'NodeAffinity',
      message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
      startTime: expect.any(String),
      qosClass: 'BestEffort',
    });
    expect(node.world.callsOf('cri.runPodSandbox')).toEqual([]);
    expect([...node.world.folders]).toEqual([]);
    expect([...node.world.groups.keys()]).toEqual([]);
    expect(node.events()).toEqual([
      "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ]);
  });

  it('is judged by what the cluster says of the node by then', () => {
    boot();
    const taints = [{ key: 'gone', effect: 'NoExecute' }];
    const known = { metadata: { labels: { zone: 'b' } }, spec: { taints } };
    void node.kernel.dispatch('kubelet/allocation', { type: 'node.known', node: known }, 'test');
    send(
      'ADD',
      asking('u1', { spec: rejected }),
      asking('u2', { spec: { ...rejected, tolerations: [{ key: 'gone' }] } }),
    );
    send('ADD', asking('u3', { spec: { ...rejected, tolerations: [{ operator: 'Exists' }] } }));
    node.until('Running', running('u3'));
    const message =
      "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    expect(node.status('u1')).toMatchObject({ reason: 'TaintToleration', message });
    expect(node.phase('u2')).toBe('Running');
  });

  it('is not refused for labels that are not known yet, in a cluster', () => {
    boot();
    const input = { settings: { ...settings, admission: ADMISSION, apiServer: { changeDetection: 'Watch' } } };
    const run = runUnder(allocationMachine, input, {}, ['pods', 'softState', 'eventRecorder']);
    const want = (pod: Pod) =>
      run.send({ type: 'allocation.wanted', request: admissionRequest(pod), allocation: allocationOf(pod) });
    const answers = () =>
      run
        .sent()
        .flatMap(({ type, uid }: { type: string; uid?: string }) =>
          type === 'allocation.granted' || type === 'allocation.refused' ? [`${uid} ${type}`] : [],
        );
    want(asking('u1', { spec: rejected }));
    want(asking('u2', { spec: { nodeSelector: { zone: 'c' } } }));
    want(asking('u3', { cpu: '3' }));
    expect(answers()).toEqual(['u3 allocation.refused']);
    run.send({ type: 'node.known', node: { metadata: { labels: { zone: 'b' } } } });
    expect(answers().slice(1)).toEqual(['u1 allocation.granted', 'u2 allocation.refused']);
    expect(run.divergence()).toBeNull();
  });

  it.each<[string, number, readonly string[]]>([
    ['is refused where too little is left of what others advertise', settings.behavior, ['u1', 'u4']],
    ['is admitted by an earlier node', 0, ['u1', 'u2', 'u3', 'u4']],
  ])('%s', (_what, behavior, granted) => {
    boot();
    const input = {
      settings: { ...settings, behavior, admission: ADMISSION, apiServer: { changeDetection: 'Watch' } },
    };
    const run = runUnder(allocationMachine, input, {}, ['pods', 'softState', 'eventRecorder', 'deviceManager']);
    const want = (uid: string, resource: string, amount: string) => {
      const resources = { requests: { [resource]: amount }, limits: { [resource]: amount } };
      const pod = asking(uid, { spec: { containers: [{ name: 'app', image: 'app:1', resources }] } });
      run.send({ type: 'allocation.wanted', request: admissionRequest(pod), allocation: allocationOf(pod) });
    };
    const allocatable = { 'example.com/dongle': '4', 'example.com/gone': '0', 'kubernetes.io/other': '0' };
    run.send({ type: 'node.known', node: { status: { allocatable } } });
    want('u1', 'example.com/dongle', '3');
    want('u2', 'example.com/dongle', '2');
    want('u3', 'example.com/gone', '1');
    want('u4', 'example.com/unknown', '1');
    const sent = run.sent() as readonly { readonly type: string; readonly uid?: string; readonly rejection?: object }[];
    expect(sent.flatMap(({ type, uid }) => (type === 'allocation.granted' ? [uid] : []))).toEqual(granted);
    const rejections = sent.flatMap(({ type, rejection }) => (type === 'allocation.refused' ? [rejection] : []));
    const message = `Node didn't have enough resource: example.com/dongle, requested: 2, used: 3, capacity: 4`;
    const isCounted = behavior > 0;
    expect(rejections.slice(0, 1)).toEqual(isCounted ? [{ reason: 'OutOfexample.com/dongle', message }] : []);
    expect(rejections.slice(1)).toMatchObject(isCounted ? [{ reason: 'OutOfexample.com/gone' }] : []);
  });

  it('stays refused over a restart of the agent, even where it would fit now, and holds nothing', () => {
    boot();
    node.world.setManifests([manifest({ uid: 'u1', spec: rejected })]);
    node.run(5_000);
    expect(node.world.softState.rejections).toMatchObject({ u1: { reason: 'NodeAffinity' } });
    restartOn({ ...ADMISSION, labels: { zone: 'b' } });
    node.run(5_000);
    expect(node.status('u1')).toMatchObject({ phase: 'Failed', reason: 'NodeAffinity' });
    expect(node.world.callsOf('cri.runPodSandbox')).toEqual([]);
    expect(node.events()).toEqual([]);
  });

  it('is taken by the next start when the machine was shutting down, if it is static', () => {
    boot();
    void node.kernel.dispatch('kubelet/allocation', { type: 'node.shuttingDown', active: true }, 'test');
    node.world.setManifests([manifest({ uid: 'u1' })]);
    send('ADD', asking('u2', {}));
    node.run(5_000);
    for (const uid of ['u1', 'u2']) expect(node.status(uid)).toMatchObject({ phase: 'Failed', reason: 'NodeShutdown' });
    node.run(2_000);
    restartOn(ADMISSION);
    node.until('Running', running('u1'));
    expect(node.world.softState.rejections).toEqual({ u2: expect.objectContaining({ reason: 'NodeShutdown' }) });
  });

  it('is gone with its source, and forgotten', () => {
    boot();
    send('ADD', asking('u1', { cpu: '3' }));
    node.run(2_000);
    remove('u1');
    node.until('gone', () => node.podState('u1') === undefined);
    node.run(2_000);
    expect(node.world.softState.rejections ?? {}).toEqual({});
  });
});

describe('a pod that the node takes', () => {
  it('is counted until it ends, and its place is free then', () => {
    boot();
    send('ADD', asking('u1', { cpu: '1500m', spec: { restartPolicy: 'Never' } }));
    node.world.runtime.programs.set('app', [{ runsMs: 3_000, exitCode: 0 }, {}]);
    node.until('Running', running('u1'));
    send('ADD', asking('u2', { cpu: '1' }));
    node.until('over', () => node.phase('u1') === 'Succeeded');
    send('ADD', asking('u3', { cpu: '1' }));
    node.until('Running', running('u3'));
    expect(node.status('u2')).toMatchObject({
      reason: 'OutOfcpu',
      message: "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
    });
  });

  it('is not counted again when what is remembered of it is told to others', () => {
    boot();
    const input = { settings: { ...settings, admission: ADMISSION } };
    const run = runUnder(allocationMachine, input, {}, ['pods', 'softState', 'eventRecorder']);
    const want = (pod: Pod) =>
      run.send({ type: 'allocation.wanted', request: admissionRequest(pod), allocation: allocationOf(pod) });
    const sent = (type: string) => run.sent().filter((message) => (message as { type: string }).type === type);
    const state = { containers: {}, probes: {} };
    run.send({ type: 'softState.loaded', state });
    want(asking('u1', { cpu: '1500m' }));
    run.send({ type: 'allocation.ended', uid: 'u1', byItself: false });
    const { grant } = sent('softState.allocated')[0] as unknown as { grant: object };
    run.send({ type: 'softState.loaded', state: { ...state, grants: { u1: grant } } });
    want(asking('u2', { cpu: '1' }));
    expect(sent('allocation.refused')).toEqual([]);
    expect(sent('allocation.granted')).toHaveLength(2);
    expect(run.divergence()).toBeNull();
  });

  it('keeps exclusively what another kubelet granted to it, until the pod is known to be gone', () => {
    boot();
    const cpus = [0, 1, 2].map((id) => ({ id, core: id, socket: 0, numaNode: 0 }));
    const cpuManager = { cpus, reserved: [0], wholeCores: false, isReservationStrict: false };
    const input = { settings: { ...settings, admission: { ...ADMISSION, cpuManager } } };
    const run = runUnder(allocationMachine, input, {}, ['pods', 'softState', 'eventRecorder', 'containerManager']);
    const resources = { requests: { cpu: '1', memory: '1Mi' }, limits: { cpu: '1', memory: '1Mi' } };
    const want = (uid: string) => {
      const pod = apiPod(uid, { containers: [{ name: 'app', image: 'app:1', resources }] });
      run.send({ type: 'allocation.wanted', request: admissionRequest(pod), allocation: allocationOf(pod) });
    };
    const holdings = { old: { cpus: { app: '2' } }, gone: { cpus: { app: '1' } } };
    const last = (type: string) => (run.sent() as readonly { type: string }[]).findLast((sent) => sent.type === type);
    run.send({ type: 'resources.handedOver', holdings });
    expect(last('resources.held')).toMatchObject({ cpus: { old: { app: '2' }, gone: { app: '1' } }, shared: '0' });
    want('old');
    expect(last('allocation.granted')).toMatchObject({ uid: 'old', cpus: { exclusive: { app: '2' } } });
    want('new');
    expect(last('allocation.refused')).toBeUndefined();
    run.send({ type: 'pods.known', uids: ['old', 'new'] });
    expect(last('allocation.granted')).toMatchObject({ uid: 'new', cpus: { exclusive: { app: '1' } } });
    want('third');
    expect(last('allocation.refused')).toMatchObject({ uid: 'third' });
    expect(run.divergence()).toBeNull();
  });

  it.each(['it is known to be gone', 'it has ended'])('of an earlier agent refuses nobody: %s', (how) => {
    boot();
    const input = { settings: { ...settings, admission: ADMISSION } };
    const run = runUnder(allocationMachine, input, {}, ['pods', 'softState', 'eventRecorder']);
    const want = (pod: Pod) =>
      run.send({ type: 'allocation.wanted', request: admissionRequest(pod), allocation: allocationOf(pod) });
    const sent = (type: string) => run.sent().filter((message) => (message as { type: string }).type === type);
    const { demand } = admissionRequest(asking('u1', { cpu: '1500m' }));
    const grants = { u1: { demand, allocation: {} } };
    run.send({ type: 'softState.loaded', state: { containers: {}, probes: {}, grants } });
    want(asking('u2', { cpu: '1' }));
    expect(sent('allocation.refused')).toEqual([]);
    if (how === 'it has ended') run.send({ type: 'allocation.ended', uid: 'u1', byItself: false });
    else run.send({ type: 'pods.known', uids: ['u2'] });
    expect(sent('allocation.granted')).toMatchObject([{ uid: 'u2' }]);
    want(asking('u3', { cpu: '1500m' }));
    expect(sent('allocation.refused')).toMatchObject([{ uid: 'u3' }]);
    expect(run.divergence()).toBeNull();
  });

  it('stays taken over a restart of the agent, on a node that is too small for it by now', () => {
    boot();
    const containers = [{ name: 'app', image: 'app:1', resources: { requests: { cpu: '2' } } }];
    node.world.setManifests([manifest({ uid: 'u1', containers })]);
    node.until('Running', running('u1'));
    node.run(2_000);
    const { started } = node.world.runtime;
    restartOn({ ...ADMISSION, allocatable: { ...ADMISSION.allocatable, cpu: '1000' } });
    node.run(10_000);
    expect(node.phase('u1')).toBe('Running');
    expect(node.world.runtime.started).toEqual(started);
  });

  it('ends when the next agent finds the node without the labels that it asks for', () => {
    boot({ admission: { ...ADMISSION, labels: { zone: 'b' } } });
    node.world.setManifests([
      manifest({ uid: 'u1', name: 'picky', spec: { nodeSelector: { zone: 'b' } } }),
      manifest({ uid: 'u2', name: 'other' }),
    ]);
    node.until('Running', () => running('u1')() && running('u2')());
    node.run(2_000);
    restartOn({ ...ADMISSION, labels: { zone: 'c' } });
    node.run(60_000);
    const text = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    expect(node.status('u1')).toMatchObject({
      phase: 'Failed',
      reason: 'NodeAffinity',
      message: `Pod was rejected: ${text}`,
      containerStatuses: [{ restartCount: 0, state: { terminated: {} } }],
    });
    expect(node.events()).toContain(`NodeAffinity: ${text}`);
    expect(node.phase('u2')).toBe('Running');
  });
});

describe('a critical pod', () => {
  it('comes when the pod that it displaces has ended, which says why it did', () => {
    boot();
    send('ADD', asking('low', { cpu: '1500m' }));
    node.until('Running', running('low'));
    send('ADD', asking('high', { cpu: '1', priority: 2_000_000_000 }));
    node.until('Running', running('high'));
    const [first, second] = node.world.callsOf('cri.runPodSandbox');
    const stopped = node.world.callsOf('cri.stopPodSandbox')[0]!;
    expect([first!.pod, second!.pod, stopped.pod]).toEqual(['low', 'high', 'low']);
    expect(stopped.atMs).toBeLessThanOrEqual(second!.atMs);
    expect(node.status('low')).toMatchObject({
      phase: 'Failed',
      reason: 'Preempting',
      message: 'Preempted in order to admit critical pod',
      conditions: expect.arrayContaining([
        expect.objectContaining({
          type: 'DisruptionTarget',
          status: 'True',
          reason: 'TerminationByKubelet',
          message: 'Pod was preempted by Kubelet to accommodate a critical pod.',
        }),
      ]),
    });
    expect(node.events().filter((text) => text.startsWith('Preempting'))).toEqual([
      'Preempting: Preempted in order to admit critical pod',
    ]);
  });

  it('gets what was last asked for, also when that came while it waited for its room', () => {
    boot();
    send('ADD', asking('low', { cpu: '1500m' }));
    node.until('Running', running('low'));
    send('ADD', asking('high', { cpu: '1', priority: 2_000_000_000 }));
    expect(node.podState('high')).toBe('admitting');
    send('UPDATE', asking('high', { cpu: '500m', priority: 2_000_000_000, generation: 2 }));
    node.until('Running', running('high')).run(1_000);
    expect(node.world.groups.get('/kubepods/burstable/podhigh')).toMatchObject({ cpuShares: '512' });
    expect(node.status('high')?.conditions?.filter(({ type }) => type.startsWith('PodResize'))).toEqual([]);
  });

  it('comes as soon as another critical one has ended that itself waited for its room', () => {
    boot();
    send('ADD', asking('low', { cpu: '1500m' }));
    node.until('Running', running('low'));
    send('ADD', asking('high', { cpu: '1800m', priority: 2_000_000_000 }));
    send('ADD', asking('higher', { cpu: '1800m', priority: 2_000_001_000 }));
    node.until('Running', running('higher'), 50_000);
    expect(node.phase('high')).toBe('Failed');
  });

  it('that is static and has no room at all is refused in the words for that', () => {
    boot();
    const containers = [{ name: 'app', image: 'app:1', resources: { requests: { cpu: '64' } } }];
    node.world.setManifests([manifest({ uid: 's1', containers })]);
    node.run(5_000);
    expect(node.status('s1')).toMatchObject({ phase: 'Failed', reason: 'UnexpectedAdmissionError' });
  });
});

describe('the cgroup of a pod', () => {
  const PATH = '/kubepods/burstable/podu1';

  it('is there with its limits before the sandbox, and goes after it', () => {
    boot({ podPidsLimit: 100, hugePageSizes: ['2MB'] });
    send('ADD', asking('u1', { cpu: '150m' }));
    node.until('Running', running('u1'));
    expect(node.world.groups.get(PATH)).toEqual({
      cpuShares: '153',
      pids: '100',
      hugePageBytes: { '2MB': '0' },
    });
    const order = node.world.calls.map(({ name }) => name);
    expect(order.indexOf('cgroup.ensure')).toBeLessThan(order.indexOf('cri.runPodSandbox'));
    remove('u1');
    node.until('gone', () => node.podState('u1') === undefined);
    expect([...node.world.groups.keys()]).toEqual([]);
    const later = node.world.calls.map(({ name }) => name);
    expect(later.indexOf('cgroup.destroy')).toBeGreaterThan(later.indexOf('cri.stopPodSandbox'));
  });

  it('that cannot be made keeps the pod waiting, and people read why', () => {
    boot();
    node.world.fault = (name, _, nth) => (name === 'cgroup.ensure' && nth === 0 ? { error: 'no space' } : undefined);
    send('ADD', asking('u1', { cpu: '1' }));
    node.until('Running', running('u1'));
    expect(node.events()).toContain(
      'FailedCreatePodContainer: unable to ensure pod container exists: failed to create container for ' +
        '[kubepods burstable podu1] : no space',
    );
  });

  it('of a pod that only the runtime knew is looked for at every level', () => {
    boot();
    send('ADD', asking('u1', { cpu: '1' }));
    node.until('Running', running('u1'));
    node = node.restart();
    node.until('gone', () => node.world.runtime.sandboxes.size === 0 && node.world.groups.size === 0);
  });
});
