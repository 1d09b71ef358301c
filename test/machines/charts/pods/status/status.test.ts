/** Tables for phase, conditions, restarts and what is published. */
import { describe, expect, it } from 'vitest';
import type { Container, ContainerStatus, PodSpec, PodStatus } from '../../../../../src/machines/model/api/pod.ts';
import { nextBackoff, shouldRestart } from '../../../../../src/machines/model/spec/restart.ts';
import { needsSandbox } from '../../../../../src/machines/model/status/conditions.ts';
import { podPhase } from '../../../../../src/machines/model/status/phase.ts';
import {
  type PodStatusFacts,
  podIPs,
  podStatus,
  publishedStatus,
  rejectedStatus,
} from '../../../../../src/machines/model/status/pod-status.ts';
import { goDuration, rfc3339 } from '../../../../../src/machines/model/values/time.ts';
import { node } from '../../../model/spec/recordings.ts';
import { container, instance, nodeBefore, pod, runtime, sandbox } from '../support.ts';

const EARLIER = nodeBefore('podLifeAsKubelet');
const NOW_MS = Date.UTC(2026, 0, 1);
const LATER_MS = NOW_MS + 60_000;

const states = {
  waiting: { state: { waiting: {} } },
  running: { state: { running: {} }, started: true },
  starting: { state: { running: {} }, started: false },
  ok: { state: { terminated: { exitCode: 0 } } },
  failed: { state: { terminated: { exitCode: 1 } } },
  backOff: { state: { waiting: {} }, lastState: { terminated: { exitCode: 1 } } },
} as const;
type State = keyof typeof states;

const status = (name: string, state: State): ContainerStatus => ({
  name,
  image: '',
  imageID: '',
  ready: false,
  restartCount: 0,
  ...states[state],
});

interface PhaseRow {
  readonly phase: string;
  readonly policy?: string;
  readonly init?: readonly State[];
  readonly sidecar?: State;
  readonly regular: readonly State[];
  readonly stopped?: boolean;
}

const phases: readonly PhaseRow[] = [
  { phase: 'Pending', regular: ['waiting'] },
  { phase: 'Pending', regular: [] },
  { phase: 'Running', regular: ['running'] },
  { phase: 'Pending', regular: ['running', 'waiting'] },
  { phase: 'Running', regular: ['running', 'failed'] },
  { phase: 'Running', regular: ['backOff'] },
  { phase: 'Running', regular: ['failed'] },
  { phase: 'Running', regular: ['ok'] },
  { phase: 'Running', policy: 'OnFailure', regular: ['ok', 'failed'] },
  { phase: 'Succeeded', policy: 'OnFailure', regular: ['ok', 'ok'] },
  { phase: 'Succeeded', policy: 'Never', regular: ['ok'] },
  { phase: 'Failed', policy: 'Never', regular: ['ok', 'failed'] },
  { phase: 'Succeeded', regular: ['ok'], stopped: true },
  { phase: 'Failed', regular: ['failed', 'ok'], stopped: true },
  { phase: 'Failed', regular: ['backOff'], stopped: true },
  { phase: 'Pending', init: ['running'], regular: ['waiting'] },
  { phase: 'Pending', init: ['waiting'], regular: ['waiting'] },
  { phase: 'Pending', init: ['ok'], regular: ['waiting'] },
  { phase: 'Running', init: ['ok'], regular: ['running'] },
  { phase: 'Pending', init: ['failed'], regular: ['waiting'] },
  { phase: 'Failed', policy: 'Never', init: ['failed'], regular: ['waiting'] },
  { phase: 'Failed', policy: 'Never', init: ['ok', 'backOff'], regular: ['waiting'] },
  { phase: 'Pending', sidecar: 'starting', regular: ['waiting'] },
  { phase: 'Running', sidecar: 'starting', regular: ['running'] },
  { phase: 'Pending', sidecar: 'starting', regular: ['backOff'] },
  { phase: 'Running', sidecar: 'running', regular: ['backOff'] },
  { phase: 'Running', sidecar: 'failed', regular: ['running'] },
  { phase: 'Running', sidecar: 'running', regular: ['ok'] },
  { phase: 'Pending', sidecar: 'running', regular: ['waiting'] },
];

describe('phase', () => {
  it.each(phases)('$phase: init $init, sidecar $sidecar, regular $regular, $policy, stopped $stopped', (row) => {
    const { init = [], regular, sidecar, policy = 'Always', stopped = false } = row;
    const name = (index: number): string => `c${index}`;
    const side: readonly Container[] = sidecar === undefined ? [] : [container({ name: 's', restartPolicy: 'Always' })];
    const spec: PodSpec = {
      restartPolicy: policy,
      initContainers: [...init.map((_, index) => container({ name: `i${index}` })), ...side],
      containers: regular.map((_, index) => container({ name: name(index) })),
    };
    const initContainerStatuses = [
      ...init.map((state, index) => status(`i${index}`, state)),
      ...(sidecar === undefined ? [] : [status('s', sidecar)]),
    ];
    const containerStatuses = regular.map((state, index) => status(name(index), state));
    expect(podPhase({ pod: pod(spec), initContainerStatuses, containerStatuses, stopped })).toBe(row.phase);
  });

  it('does not end a static pod whose file may bring it back', () => {
    const annotations = { 'kubernetes.io/config.source': 'file' };
    const facts = { initContainerStatuses: [], containerStatuses: [status('c', 'ok')], stopped: true };
    expect(podPhase({ ...facts, pod: pod({}, { annotations }) })).toBe('Running');
  });
});

describe('restart', () => {
  it.each([
    ['Always', undefined, 0, true],
    ['OnFailure', undefined, 0, false],
    ['OnFailure', undefined, 1, true],
    ['Never', undefined, 1, false],
    ['Never', 'Always', 0, true],
    ['Always', 'Never', 1, false],
  ])('pod %s, container %s, exit %s: %s', (policy, own, exitCode, expected) => {
    const restarting = container(own === undefined ? {} : { restartPolicy: own });
    expect(shouldRestart({ pod: pod({ restartPolicy: policy }), container: restarting, exitCode })).toBe(expected);
  });

  it.each([
    ['In', [42], 42, true],
    ['In', [42], 1, false],
    ['NotIn', [42], 1, true],
    ['NotIn', [42], 42, false],
  ])('rule %s %s, exit %s: %s', (operator, values, exitCode, expected) => {
    const rules = [{ action: 'Restart', exitCodes: { operator, values } }];
    const restarting = container({ restartPolicy: 'Never', restartPolicyRules: rules });
    expect(shouldRestart({ pod: pod(), container: restarting, exitCode })).toBe(expected);
  });

  it('never happens in a pod that is being deleted', () => {
    const deleted = pod({}, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect(shouldRestart({ pod: deleted, container: container(), exitCode: 1 })).toBe(false);
  });

  it('doubles its delay up to the longest', () => {
    const delays: number[] = [];
    for (let previousMs = 0; delays.length < 7; ) {
      previousMs = nextBackoff({ previousMs, quietMs: previousMs, maxMs: 300_000 });
      delays.push(previousMs);
    }
    expect(delays).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
  });

  it.each([
    [600_000, 300_000],
    [600_001, 10_000],
  ])('after %s ms of quiet the delay is %s', (quietMs, expected) => {
    expect(nextBackoff({ previousMs: 300_000, quietMs, maxMs: 300_000 })).toBe(expected);
  });

  it('begins with the given delay', () => {
    expect(nextBackoff({ previousMs: 0, quietMs: 0, maxMs: 60_000, initialMs: 1_000 })).toBe(1_000);
    expect(nextBackoff({ previousMs: 60_000, quietMs: 120_001, maxMs: 60_000, initialMs: 1_000 })).toBe(1_000);
  });

  it('keeps to a longest delay that is shorter than the first', () => {
    expect(nextBackoff({ previousMs: 0, quietMs: 0, maxMs: 1_000 })).toBe(1_000);
  });
});

describe('the phase of a pod whose sandbox was replaced', () => {
  const sidecar = container({ name: 's', restartPolicy: 'Always', startupProbe: {} });
  const spec = pod({ initContainers: [sidecar] });
  const old = instance({ state: 'CONTAINER_EXITED', exit_code: 1 });
  const starting = instance({ id: 's1', metadata: { name: 's', attempt: 1 }, created_at: '20' });
  const phaseOf = (created_at: string, more: Partial<PodStatusFacts> = {}) => {
    const seen = runtime([old, starting], [sandbox({ created_at })]);
    return podStatus(facts({ pod: spec, runtime: seen, started: { s: false }, ...more })).phase;
  };

  it('is Pending until its sidecars have started again', () => {
    expect(phaseOf('10')).toBe('Pending');
    expect(phaseOf('10', { started: { s: true } })).toBe('Running');
  });

  it('stays Running while a sidecar starts again in the same sandbox', () => expect(phaseOf('1')).toBe('Running'));

  it('was Running at once on an earlier node', () => {
    expect(phaseOf('10', { node: { ...node, behavior: EARLIER } })).toBe('Running');
  });
});

const facts = (more: Partial<PodStatusFacts> = {}): PodStatusFacts => ({
  pod: pod(),
  runtime: runtime([instance()]),
  node,
  nowMs: NOW_MS,
  previous: null,
  ...more,
});

const times = (result: ReturnType<typeof podStatus>): Record<string, unknown> =>
  Object.fromEntries((result.conditions ?? []).map(({ type, lastTransitionTime }) => [type, lastTransitionTime]));

describe('conditions', () => {
  it('keep their time while their status stays', () => {
    const before = podStatus(facts({ runtime: null }));
    const after = podStatus(facts({ previous: before, nowMs: LATER_MS }));
    expect(times(after)).toEqual({
      PodReadyToStartContainers: rfc3339(LATER_MS),
      Initialized: rfc3339(NOW_MS),
      Ready: rfc3339(LATER_MS),
      ContainersReady: rfc3339(LATER_MS),
      PodScheduled: rfc3339(NOW_MS),
    });
    expect(after.startTime).toBe(rfc3339(NOW_MS));
  });

  it('do not say whether containers can start where a gate hides that', () => {
    const types = (hidesReadyToStart: boolean) =>
      podStatus(facts({ node: { ...node, hidesReadyToStart } })).conditions?.map(({ type }) => type);
    expect(types(true)).toEqual(types(false)?.filter((type) => type !== 'PodReadyToStartContainers'));
    expect(types(false)).toContain('PodReadyToStartContainers');
  });

  it('of others stay and decide on readiness', () => {
    const gate = { type: 'example.com/gate', status: 'False' };
    const gated = { ...pod({ readinessGates: [{ conditionType: gate.type }] }), status: { conditions: [gate] } };
    const result = podStatus(facts({ pod: gated }));
    expect(result.conditions?.[0]).toEqual(gate);
    expect(result.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'ReadinessGatesNotReady',
      message: 'the status of pod readiness gate "example.com/gate" is not "True", but False',
    });
  });

  it('say who disrupts the pod, once and for all', () => {
    const kill = { reason: 'Terminated', message: 'shutdown', disruptionTarget: true };
    const killed = podStatus(facts({ kill }));
    expect(killed).toMatchObject({ phase: 'Failed', reason: 'Terminated', message: 'shutdown' });
    const after = podStatus(facts({ previous: killed, nowMs: LATER_MS }));
    expect(after.conditions?.find(({ type }) => type === 'DisruptionTarget')).toMatchObject({
      reason: 'TerminationByKubelet',
      lastTransitionTime: rfc3339(NOW_MS),
    });
  });
});

describe('sandbox', () => {
  it.each([
    ['none', [], true],
    ['ready', [sandbox()], false],
    ['dead', [sandbox({ state: 'SANDBOX_NOTREADY' })], true],
    ['two', [sandbox(), sandbox({ id: 's1' })], true],
    ['old one dead', [sandbox(), sandbox({ id: 's1', state: 'SANDBOX_NOTREADY' })], false],
    ['of the host', [sandbox({ linux: { namespaces: { options: { network: 'NODE' } } } })], true],
    ['without address', [sandbox({ network: { ip: '', additional_ips: [] } })], true],
  ] as const)('%s: needed %s', (_, sandboxes, expected) => {
    expect(needsSandbox(pod(), runtime([], sandboxes))).toBe(expected);
  });

  it('gives the node’s family of addresses first', () => {
    const network = { ip: '10.0.0.5', additional_ips: [{ ip: 'fd00::5' }] };
    const dual = runtime([], [sandbox({ network })]);
    expect(podIPs(dual, { ...node, nodeIPs: ['fd00::1'] })).toEqual(['fd00::5', '10.0.0.5']);
    expect(podIPs(dual, { ...node, nodeIPs: [] })).toEqual(['10.0.0.5', 'fd00::5']);
  });

  it('gives one address of each family, because the API server takes no more', () => {
    const others = [{ ip: '10.0.1.5' }, { ip: 'FD00:0::5' }, { ip: 'fd00::6' }];
    const many = runtime([], [sandbox({ network: { ip: '10.0.0.5', additional_ips: others } })]);
    expect(podIPs(many, node)).toEqual(['10.0.0.5', 'fd00::5']);
    expect(podIPs(many, { ...node, nodeIPs: ['fd00::1'] })).toEqual(['fd00::5', '10.0.0.5']);
    expect(podIPs(many, { ...node, behavior: EARLIER })).toEqual(['10.0.0.5', '10.0.1.5', 'FD00:0::5', 'fd00::6']);
  });
});

describe('a container', () => {
  const of = (more: Partial<PodStatusFacts>): ContainerStatus | undefined =>
    podStatus(facts(more)).containerStatuses?.[0];

  it('moves its end aside when it waits for the next start', () => {
    const exited = instance({
      state: 'CONTAINER_EXITED',
      exit_code: 137,
      reason: 'OOMKilled',
      finished_at: '2000000000',
    });
    const waiting = { c: { reason: 'CrashLoopBackOff', message: 'back-off 10s' } };
    expect(of({ runtime: runtime([exited]), waiting })).toMatchObject({
      state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s' } },
      lastState: { terminated: { exitCode: 137, reason: 'OOMKilled', finishedAt: '1970-01-01T00:00:02Z' } },
    });
  });

  it('shows how it ended when it will not start again', () => {
    const exited = instance({ state: 'CONTAINER_EXITED', exit_code: 1 });
    const waiting = { c: { reason: 'CrashLoopBackOff', message: '' } };
    const never = pod({ restartPolicy: 'Never' });
    expect(of({ pod: never, runtime: runtime([exited]), waiting })?.state).toHaveProperty('terminated.exitCode', 1);
  });

  it('shows the instance before as the last', () => {
    const exited = instance({ id: 'c0', state: 'CONTAINER_EXITED', exit_code: 3 });
    const restarted = instance({ id: 'c1', created_at: '2', metadata: { name: 'c', attempt: 1 } });
    expect(of({ runtime: runtime([exited, restarted]) })).toMatchObject({
      containerID: 'containerd://c1',
      restartCount: 1,
      lastState: { terminated: { exitCode: 3, containerID: 'containerd://c0' } },
    });
  });

  it('remembers an end that the runtime has forgotten', () => {
    const before = podStatus(facts({ runtime: runtime([instance({ state: 'CONTAINER_EXITED', exit_code: 3 })]) }));
    const restarted = instance({ id: 'c1', created_at: '2' });
    const now = of({ previous: before, runtime: runtime([restarted]) });
    expect(now).toMatchObject({ restartCount: 1, lastState: { terminated: { exitCode: 3 } } });
  });

  it('counts an instance once, also when it was out of sight while its hook ran', () => {
    const exited = instance({ id: 'c0', state: 'CONTAINER_EXITED', exit_code: 3 });
    const annotations = { 'io.kubernetes.container.restartCount': '1' };
    const created = instance({ id: 'c1', created_at: '2', state: 'CONTAINER_CREATED', annotations });
    const running = instance({ id: 'c1', created_at: '2', annotations });
    const looks = [[exited], [exited, created], [exited], [exited, running]];
    let before: PodStatus | null = null;
    for (const seen of looks) before = podStatus(facts({ previous: before, runtime: runtime(seen) }));
    expect(before?.containerStatuses?.[0]).toMatchObject({ state: { running: {} }, restartCount: 1 });
  });

  it('is lost when the runtime no longer knows it', () => {
    const before = podStatus(facts());
    const deleted = pod({}, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect(of({ previous: before, runtime: runtime([]) })).toMatchObject({
      restartCount: 1,
      lastState: { terminated: { exitCode: 137, reason: 'ContainerStatusUnknown' } },
    });
    expect(of({ pod: deleted, previous: before, runtime: runtime([]) })?.restartCount).toBe(0);
  });

  it('that initialised and was forgotten has succeeded, because the regular one is there', () => {
    const spec = { initContainers: [container({ name: 'i' }), container({ name: 's', restartPolicy: 'Always' })] };
    const seen = (instances: ReturnType<typeof instance>[]) =>
      podStatus(facts({ pod: pod(spec), previous: null, runtime: runtime(instances) }));
    expect(seen([instance()]).initContainerStatuses).toMatchObject([
      { ready: true, state: { terminated: { exitCode: 0, reason: 'Completed' } } },
      { ready: false, state: { waiting: { reason: 'PodInitializing' } } },
    ]);
    expect(seen([]).initContainerStatuses?.[0]?.state).toEqual({ waiting: { reason: 'PodInitializing' } });
  });

  it('that initialised counts one more restart with all others, however long these take to end', () => {
    const restartPolicyRules = [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [42] } }];
    const source = container({ name: 'c', restartPolicy: 'Never', restartPolicyRules });
    const anew = pod({ restartPolicy: 'Never', initContainers: [container({ name: 'i' })], containers: [source] });
    const ended = { state: 'CONTAINER_EXITED' } as const;
    const init = instance({ ...ended, id: 'i0', metadata: { name: 'i', attempt: 0 } });
    const asking = instance({ ...ended, exit_code: 42 });
    let before: PodStatus | null = null;
    for (const seen of [[init, asking], [asking], [asking], [asking], []])
      before = podStatus(facts({ pod: anew, previous: before, runtime: runtime(seen) }));
    expect(before?.initContainerStatuses?.[0]).toMatchObject({ restartCount: 1, state: { waiting: {} } });
    expect(before?.containerStatuses?.[0]).toMatchObject({ restartCount: 1 });
  });

  it('that asks for memory alone shows the share of CPU that it has by the limit of its pod', () => {
    const resources = { requests: { memory: '10Mi' } };
    const requestsWith = (cpu_shares: string) => {
      const seen = instance({ resources: { linux: { cpu_shares } } });
      const asking = pod({ containers: [container({ resources })] });
      return podStatus(facts({ pod: asking, runtime: runtime([seen]) })).containerStatuses?.[0]?.resources?.requests;
    };
    expect(requestsWith('512')).toEqual({ cpu: '500m', memory: '10Mi' });
    expect(requestsWith('2')).toEqual({ memory: '10Mi' });
  });

  it('has ended when the runtime does not know what became of it, and stays so', () => {
    const unknown = runtime([instance({ state: 'CONTAINER_UNKNOWN' })]);
    const lost = podStatus(facts({ previous: podStatus(facts()), runtime: unknown }));
    expect(lost.containerStatuses?.[0]).toMatchObject({ restartCount: 1, state: { terminated: { exitCode: 137 } } });
    expect(podStatus(facts({ previous: lost, runtime: unknown }))).toEqual(lost);
  });

  it('counts on where an earlier agent stopped', () => {
    expect(of({ runtime: null, restartCounts: { c: 4 } })?.restartCount).toBe(4);
  });

  it('has started and is ready when its probes say so', () => {
    const probe = { exec: { command: ['true'] } };
    const probed = pod({ containers: [container({ startupProbe: probe, readinessProbe: probe })] });
    expect(of({ pod: probed })).toMatchObject({ started: false, ready: false });
    expect(of({ pod: probed, started: { c: true } })).toMatchObject({ started: true, ready: false });
    expect(of({ pod: probed, started: { c: true }, ready: { c: true } })).toMatchObject({ started: true, ready: true });
    expect(of({ pod: probed, ready: { c: true } })).toMatchObject({ ready: false });
  });
});

describe('the end of a pod', () => {
  it('is not taken back', () => {
    const failed = podStatus(facts({ failure: { reason: 'DeadlineExceeded', message: 'too long' } }));
    expect(podStatus(facts({ previous: failed }))).toMatchObject({ phase: 'Failed', reason: 'DeadlineExceeded' });
  });

  it('is not published while a container may run', () => {
    const running = podStatus(facts());
    const failed = podStatus(
      facts({ previous: running, failure: { reason: 'DeadlineExceeded', message: 'too long' } }),
    );
    const hidden = publishedStatus(failed, running, true);
    expect(hidden.phase).toBe('Running');
    expect(hidden).not.toHaveProperty('reason');
    expect(publishedStatus(failed, hidden, false)).toMatchObject({ phase: 'Failed', reason: 'DeadlineExceeded' });
  });

  it('is never ready', () => {
    const killed = podStatus(facts({ kill: { reason: 'Evicted', message: 'too much' } }));
    const conditions = publishedStatus(killed, null, false).conditions?.filter(({ type }) => type.endsWith('Ready'));
    expect(conditions?.map(({ status: each, reason }) => [each, reason])).toEqual([
      ['False', 'PodFailed'],
      ['False', 'PodFailed'],
    ]);
  });

  it('leaves no container without an end', () => {
    const gone = podStatus(facts({ runtime: null, stage: 'terminated' }));
    expect(gone.phase).toBe('Failed');
    expect(gone.containerStatuses?.[0]?.state?.terminated).toEqual({
      exitCode: 137,
      reason: 'ContainerStatusUnknown',
      message: 'The container could not be located when the pod was terminated',
    });
  });

  it('does not blame containers that never had their turn', () => {
    const initContainers = [container({ name: 'i0' }), container({ name: 'i1' })];
    const gone = podStatus(facts({ pod: pod({ initContainers }), runtime: null, stage: 'terminated' }));
    const ended = (each: ContainerStatus): boolean => each.state?.terminated !== undefined;
    expect(gone.initContainerStatuses?.map(ended)).toEqual([true, false]);
    expect(gone.containerStatuses?.map(ended)).toEqual([false]);
  });

  it('can come before the start', () => {
    expect(rejectedStatus(pod(), { reason: 'OutOfcpu', message: 'too much' }, NOW_MS)).toEqual({
      phase: 'Failed',
      reason: 'OutOfcpu',
      message: 'Pod was rejected: too much',
      startTime: '2026-01-01T00:00:00Z',
      qosClass: 'BestEffort',
    });
  });
});

describe('durations', () => {
  it.each([
    [0, '0s'],
    [500, '500ms'],
    [10_000, '10s'],
    [1_500, '1.5s'],
    [80_000, '1m20s'],
    [300_000, '5m0s'],
    [3_600_000, '1h0m0s'],
  ])('%s ms are %s', (ms, text) => expect(goDuration(ms)).toBe(text));
});
