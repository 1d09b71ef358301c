/** The life of pods with a modelled runtime: proves P1 to P5 of `pod.ts` and T1 to T4 of `container.ts`. */
import { afterEach, describe, expect, it } from 'vitest';
import type { Pod } from '../../../../../src/machines/model/api/pod.ts';
import { image, manifest, nodeWith, type PodOptions, PodsNode } from '../../../../support/pods-node.ts';

let node: PodsNode;
const prepare = (...pods: PodOptions[]): PodsNode => (node = nodeWith(...pods));
const boot = (...pods: PodOptions[]): PodsNode => prepare(...pods).boot();
const running = (uid: string) => () => node.isReady(uid);
const gone = (uid: string) => () => node.podState(uid) === undefined;
const { until, started, calls } = {
  until: (what: string, holds: () => boolean, withinMs?: number) => node.until(what, holds, withinMs),
  started: () => node.world.runtime.started,
  calls: (pattern: RegExp) => node.world.calls.filter(({ name }) => pattern.test(name)).map(({ name }) => name),
};
const nothingLeft = () => {
  expect(node.world.runtime.sandboxes.size).toBe(0);
  expect(node.world.runtime.containers.size).toBe(0);
  expect([...node.world.folders, ...node.world.files.keys()]).toEqual([]);
};

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('a pod with one container', () => {
  it('comes to Running with nothing but what is needed between the three calls', () => {
    boot({ uid: 'u1' });
    const begin = node.time.ms;
    until('Running', running('u1'));
    expect(calls(/cri\.(run|create|start)/)).toEqual([
      'cri.runPodSandbox',
      'cri.createContainer',
      'cri.startContainer',
    ]);
    expect(node.time.ms - begin).toBeLessThanOrEqual((60 + 20 + 30) * 1.15);
    expect(node.events()).toEqual([
      'Pulled: Container image "app:1" already present on machine and can be accessed by the pod',
      'Created: Container created',
      'Started: Container started',
    ]);
  });

  it.each(['cri.runPodSandbox', 'cri.startContainer', 'cri.stopContainer', 'cri.stopPodSandbox'])(
    'inspects the pod where the answer to %s does not show what it did',
    (call) => {
      prepare({ uid: 'u1' }).world.fault = (name) => (name === call ? { showsNothing: true } : undefined);
      node.boot();
      until('Running', running('u1'));
      node.run(1_000);
      const isOfStart = /run|start/.test(call);
      expect(calls(/podStatus/)).toHaveLength(isOfStart ? 1 : 0);
      node.world.setManifests([]);
      until('gone', gone('u1'));
      nothingLeft();
    },
  );

  it('pulls while the sandbox starts', () => {
    prepare({ uid: 'u1' }).world.runtime.images.clear();
    node.world.registry.set('app:1', image('app:1'));
    node.boot();
    until('Running', running('u1'));
    const at = (name: string) => node.world.callsOf(name)[0]!.atMs;
    /** The time that the world takes to create a sandbox. */
    const sandboxMs = 60;
    expect(at('cri.pullImage')).toBeLessThan(at('cri.runPodSandbox') + sandboxMs);
  });

  it('leaves nothing behind when its file is removed', () => {
    boot({ uid: 'u1' });
    until('Running', running('u1'));
    node.world.setManifests([]);
    until('gone', gone('u1'));
    nothingLeft();
  });

  it('is idle when it is done: no call, no timer but the slow ones', () => {
    boot({ uid: 'u1' });
    until('Running', running('u1'));
    node.run(5_000);
    const before = node.world.calls.length;
    node.run(250_000);
    expect(node.world.calls.length).toBe(before);
  });
});

describe('the end of a pod', () => {
  it('kills what ignores the stop signal after the grace of the pod', () => {
    boot({ uid: 'u1', spec: { terminationGracePeriodSeconds: 5 } });
    node.world.runtime.programs.set('app', [{ stopsMs: Number.POSITIVE_INFINITY }]);
    until('Running', running('u1'));
    const begin = node.time.ms;
    node.world.setManifests([]);
    until('gone', gone('u1'));
    expect(node.time.ms - begin).toBeGreaterThanOrEqual(5_000);
    expect(node.time.ms - begin).toBeLessThan(5_500);
    nothingLeft();
  });

  it('shortens the grace of a kill under way, and never lengthens it', () => {
    boot({ uid: 'u1', spec: { terminationGracePeriodSeconds: 60 } });
    node.world.runtime.programs.set('app', [{ stopsMs: Number.POSITIVE_INFINITY }]);
    until('Running', running('u1'));
    const begin = node.time.ms;
    node.world.setManifests([]);
    node.run(1_000);
    const order = { type: 'pod.kill', remove: true, verdict: null };
    node.kernel.dispatch('kubelet/pods/pod-u1', { ...order, graceSeconds: 2 }, 'test');
    node.kernel.dispatch('kubelet/pods/pod-u1', { ...order, graceSeconds: 100 }, 'test');
    until('gone', gone('u1'));
    expect(node.time.ms - begin).toBeLessThan(4_000);
  });

  it('stops a pod whose sandbox is still being made, and what the call did nevertheless', () => {
    boot({ uid: 'u1' });
    until('the call', () => calls(/runPodSandbox/).length === 1);
    node.world.setManifests([]);
    until('gone', gone('u1'));
    nothingLeft();
    expect(started()).toEqual([]);
  });

  it('lets a new pod of the same name start only when the old one is gone', () => {
    boot({ uid: 'u1' });
    node.world.runtime.programs.set('app', [{ stopsMs: 3_000 }]);
    until('Running', running('u1'));
    node.world.setManifests([manifest({ uid: 'u2', spec: { priority: 1 } })]);
    node.run(1_000);
    expect(node.podState('u2')).toBe('held');
    expect(node.world.runtime.running('app')?.sandbox.config.metadata?.uid).toBe('u1');
    until('gone', gone('u1'));
    expect(started()).toHaveLength(1);
    until('Running', running('u2'));
    expect(started()).toHaveLength(2);
  });

  it('forgets a held pod whose file goes before its turn', () => {
    boot({ uid: 'u1' });
    until('Running', running('u1'));
    node.world.runtime.running('app')!.program = { stopsMs: 3_000 };
    node.world.setManifests([manifest({ uid: 'u2' })]);
    node.run(100);
    node.world.setManifests([]);
    until('gone', () => gone('u1')() && gone('u2')());
    nothingLeft();
  });

  it('starts a pod again whose file came back while it ended', () => {
    boot({ uid: 'u1' });
    until('Running', running('u1'));
    node.world.runtime.running('app')!.program = { stopsMs: 3_000 };
    node.world.setManifests([]);
    node.run(100);
    node.world.setManifests([manifest({ uid: 'u1' })]);
    until('a second start', () => started().length === 2);
    until('Running', running('u1'));
  });
});

describe('a container that ends', () => {
  const restarts = () =>
    node
      .transcript()
      .flatMap((text) => /^\+ *(\d+) .*-> cri.startContainer$/.exec(text)?.[1] ?? [])
      .map(Number);

  it('starts again at once, then after 10, 20 and 40 s, and says so', () => {
    boot({ uid: 'u1' });
    node.world.runtime.programs.set('app', [{ runsMs: 1_000, exitCode: 1 }]);
    until('five starts', () => started().length === 5);
    const gaps = restarts()
      .map((at, i, all) => Math.round((at - (all[i - 1] ?? at)) / 1_000))
      .slice(1);
    expect(gaps).toEqual([1, 11, 21, 41]);
    until('back-off', () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting?.reason === 'CrashLoopBackOff');
    const status = node.status('u1')!.containerStatuses![0]!;
    expect(status.state!.waiting!.message).toBe(
      'back-off 1m20s restarting failed container=app pod=web-node_default(u1)',
    );
    expect(status.lastState!.terminated!.exitCode).toBe(1);
    expect(status.restartCount).toBe(4);
    expect(node.phase('u1')).toBe('Running');
    expect(node.events()).toContain('BackOff: Back-off restarting failed container app in pod web-node_default(u1)');
  });

  it('shows the next instance when it runs, and before that why it waits', () => {
    boot({ uid: 'u1' });
    node.world.runtime.programs.set('app', [{ runsMs: 1_000, exitCode: 1 }]);
    until('three starts', () => started().length === 3);
    const waiting = node.sink.records.flatMap((record) => {
      if (record.k !== 'message' || record.event.type !== 'status.changed') return [];
      const { status } = record.event as unknown as { status: NonNullable<Pod['status']> };
      return status.containerStatuses?.[0]?.state?.waiting ?? [];
    });
    expect(waiting.length).toBeGreaterThan(0);
    expect(waiting.filter(({ reason }) => !reason)).toEqual([]);
  });

  it('is forgiven after a good run', () => {
    boot({ uid: 'u1' });
    node.world.runtime.programs.set('app', [
      { runsMs: 1_000, exitCode: 1 },
      { runsMs: 1_000, exitCode: 1 },
      { runsMs: 700_000, exitCode: 1 },
      {},
    ]);
    until('four starts', () => started().length === 4, 2_000_000);
    const gaps = restarts()
      .map((at, i, all) => Math.round((at - (all[i - 1] ?? at)) / 1_000))
      .slice(1);
    expect(gaps).toEqual([1, 11, 700]);
  });

  it("that never began to run is not forgiven: it backs off, and says the runtime's words without their code", () => {
    boot({ uid: 'u1' });
    node.world.runtime.programs.set('app', [
      { startError: 'rpc error: code = Unknown desc = exec: "/nope": no such file or directory' },
    ]);
    until('the back-off', () => node.events().some((text) => text.startsWith('BackOff:')));
    const status = () => node.status('u1')!.containerStatuses![0]!;
    expect(status()).toMatchObject({ restartCount: 1, state: { waiting: { reason: 'CrashLoopBackOff' } } });
    expect(node.events()).toContain('Failed: Error: exec: "/nope": no such file or directory');
    node.run(7_000);
    expect(status().restartCount).toBe(1);
    until('the next try', () => status().restartCount === 2);
  });

  it('is not at fault for a start that ended with its agent: it starts again, without a back-off', () => {
    boot({ uid: 'u1' });
    const startError = 'failed to create containerd task: failed to create shim task: context canceled: unknown';
    const crash = { runsMs: 1_000, exitCode: 1 };
    node.world.runtime.programs.set('app', [crash, { startError }, { startError }, crash, {}]);
    until('it runs again', () => node.status('u1')?.containerStatuses?.[0]?.restartCount === 3, 5_000);
    expect(started().length).toBe(2);
    expect(node.events().filter((text) => text.startsWith('BackOff:'))).toEqual([]);
    const begin = node.time.ms;
    until('a crash of its own counts on', () => started().length === 3);
    expect(node.time.ms - begin).toBeGreaterThan(10_000);
  });

  it('keeps its back-off and its count over a restart of the agent', () => {
    boot({ uid: 'u1' });
    node.world.runtime.programs.set('app', [{ runsMs: 1_000, exitCode: 1 }]);
    until('four starts', () => started().length === 4);
    until('back-off', () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting?.reason === 'CrashLoopBackOff');
    node.run(2_000);
    const begin = node.time.ms;
    node = node.restart();
    until('a fifth start', () => started().length === 5);
    expect(node.time.ms - begin).toBeGreaterThan(37_000);
    expect(node.time.ms - begin).toBeLessThan(40_000);
    expect(started().at(-1)).toBe('web-node/app#4');
  });

  it('tells its last words', () => {
    boot({ uid: 'u1', spec: { restartPolicy: 'Never' } });
    node.world.runtime.programs.set('app', [{ runsMs: 1_000, exitCode: 3 }]);
    until('Running', running('u1'));
    const mount = node.world.runtime
      .running('app')!
      .config.mounts!.find(({ container_path }) => container_path === '/dev/termination-log');
    node.world.messages.set(mount!.host_path!, 'no space for my hat');
    until('Failed', () => node.phase('u1') === 'Failed');
    node.run(1_000);
    expect(node.status('u1')!.containerStatuses![0]!.state!.terminated).toMatchObject({
      exitCode: 3,
      message: 'no space for my hat',
    });
  });

  it('ends the pod when its policy says so; the pod stays until its file goes', () => {
    boot({ uid: 'u1', spec: { restartPolicy: 'OnFailure' } });
    node.world.runtime.programs.set('app', [{ runsMs: 1_000, exitCode: 1 }, { runsMs: 1_000 }]);
    until('Succeeded', () => node.phase('u1') === 'Succeeded');
    node.run(10_000);
    expect(node.podState('u1')).toEqual({ terminated: 'kept' });
    expect(started()).toHaveLength(2);
    expect([...node.world.runtime.sandboxes.values()].map(({ state }) => state)).toEqual(['SANDBOX_NOTREADY']);
    node = node.restart();
    node.run(10_000);
    expect(node.podState('u1')).toEqual({ terminated: 'kept' });
    expect(node.phase('u1')).toBe('Succeeded');
    node.world.setManifests([]);
    until('gone', gone('u1'));
    nothingLeft();
  });

  it('that was removed by another client is created again', () => {
    boot({ uid: 'u1' });
    until('Running', running('u1'));
    node.world.runtime.removeContainer(node.world.runtime.running('app')!.id);
    until('a second start', () => started().length === 2);
    until('Running', running('u1'));
    expect(started().at(-1)).toBe('web-node/app#1');
  });
});

describe('images', () => {
  it('are pulled again after a back-off, and the pod says why it waits', () => {
    prepare({ uid: 'u1' }).world.runtime.images.clear();
    node.boot();
    const reason = () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting?.reason;
    until('ErrImagePull', () => reason() === 'ErrImagePull');
    until('ImagePullBackOff', () => reason() === 'ImagePullBackOff');
    const { message } = node.status('u1')!.containerStatuses![0]!.state!.waiting!;
    expect(message).toBe(
      'Back-off pulling image "app:1": ErrImagePull: failed to resolve reference "app:1": not found',
    );
    const failures = () => node.events().filter((text) => text.startsWith('Failed: Failed to pull')).length;
    until('a second failure', () => failures() === 2);
    node.world.registry.set('app:1', image('app:1'));
    until('Running', running('u1'));
    const [first, second, third] = node.world.callsOf('cri.pullImage').map(({ atMs }) => atMs);
    expect(Math.round((second! - first!) / 1_000)).toBe(11);
    expect(Math.round((third! - second!) / 1_000)).toBe(21);
  });

  it('with policy Never are not pulled', () => {
    prepare({ uid: 'u1', containers: [{ name: 'app', image: 'other:1', imagePullPolicy: 'Never' }] }).boot();
    until(
      'the refusal',
      () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting?.reason === 'ErrImageNeverPull',
    );
    node.run(60_000);
    expect(node.world.callsOf('cri.pullImage')).toEqual([]);
  });

  it('are pulled once for all waiting pods', () => {
    prepare({ uid: 'u1', name: 'a' }, { uid: 'u2', name: 'b' }).world.runtime.images.clear();
    node.world.registry.set('app:1', image('app:1'));
    node.boot();
    until('both', () => running('u1')() && running('u2')());
    expect(node.world.callsOf('cri.pullImage')).toHaveLength(1);
  });
});

describe('init containers and sidecars', () => {
  const spec = {
    initContainers: [
      { name: 'first', image: 'app:1' },
      { name: 'side', image: 'app:1', restartPolicy: 'Always' },
      { name: 'second', image: 'app:1' },
    ],
  };
  const programs = () => {
    node.world.runtime.programs.set('first', [{ runsMs: 2_000 }]).set('second', [{ runsMs: 2_000 }]);
  };

  it('run in order, each plain one to its end', () => {
    boot({ uid: 'u1', spec });
    programs();
    until('Running', running('u1'));
    expect(started()).toEqual(['web-node/first#0', 'web-node/side#0', 'web-node/second#0', 'web-node/app#0']);
  });

  it('are left alone by a new agent once the pod is initialised', () => {
    boot({ uid: 'u1', spec });
    programs();
    until('Running', running('u1'));
    const before = started().length;
    node = node.restart();
    until('Running', running('u1'));
    node.run(30_000);
    expect(started()).toHaveLength(before);
    expect(calls(/cri\.(stop|remove)/)).toEqual([]);
  });

  it('that fail are tried again, and end the pod when it never restarts', () => {
    boot({ uid: 'u1', spec: { ...spec, restartPolicy: 'Never' } });
    node.world.runtime.programs.set('first', [{ runsMs: 1_000, exitCode: 1 }]);
    until('Failed', () => node.phase('u1') === 'Failed');
    node.run(30_000);
    expect(started()).toEqual(['web-node/first#0']);
  });

  it('sidecars end when nothing is left that they serve', () => {
    boot({ uid: 'u1', spec: { ...spec, restartPolicy: 'Never' } });
    node.world.runtime.programs.set('app', [{ runsMs: 500, exitCode: 0 }]);
    programs();
    until('Running', running('u1'));
    until('over', () => node.phase('u1') === 'Succeeded' || node.phase('u1') === 'Failed');
    expect(node.world.runtime.running('side')).toBeUndefined();
  });

  it('sidecars stop after the containers that they serve', () => {
    boot({ uid: 'u1', spec });
    programs();
    until('Running', running('u1'));
    node.world.runtime.running('app')!.program = { stopsMs: 1_000 };
    node.world.setManifests([]);
    until('gone', gone('u1'));
    const [app, side] = node.world.callsOf('cri.stopContainer');
    expect(side!.atMs - app!.atMs).toBeGreaterThanOrEqual(1_000);
    const inputs = node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'cri.stopContainer' ? [record.input] : [],
    );
    expect(inputs, 'the second that the first one took is gone').toMatchObject([
      { timeoutSeconds: 30 },
      { timeoutSeconds: 29 },
    ]);
  });
});

describe('a sandbox that dies', () => {
  it('is made again with the next attempt, and the container with the next count', () => {
    boot({ uid: 'u1' });
    until('Running', running('u1'));
    const [old] = node.world.runtime.sandboxes.values();
    node.world.runtime.stopSandbox(old!.id);
    until('a second start', () => started().length === 2);
    until('Running', running('u1'));
    expect([...node.world.runtime.sandboxes.values()].map(({ config }) => config.metadata?.attempt)).toEqual([0, 1]);
    expect(node.events()).toContain('SandboxChanged: Pod sandbox changed, it will be killed and re-created.');
    node.run(200_000);
    expect(node.world.runtime.containers.size).toBe(2);
    node.world.setManifests([]);
    until('gone', gone('u1'));
    expect(
      node.lastReportedStatus('u1')?.containerStatuses,
      'what was told last, while instance after instance went',
    ).toEqual([
      expect.objectContaining({ restartCount: 1, state: { terminated: expect.objectContaining({ exitCode: 143 }) } }),
    ]);
  });

  it('runs the init containers again', () => {
    boot({ uid: 'u1', spec: { initContainers: [{ name: 'first', image: 'app:1' }] } });
    node.world.runtime.programs.set('first', [{ runsMs: 100 }]);
    until('Running', running('u1'));
    node.world.runtime.stopSandbox([...node.world.runtime.sandboxes.keys()][0]!);
    until('Running', () => started().length === 4 && running('u1')());
    expect(started().slice(2)).toEqual(['web-node/first#1', 'web-node/app#1']);
  });

  it('ends a pod that never restarts', () => {
    boot({ uid: 'u1', spec: { restartPolicy: 'Never' } });
    until('Running', running('u1'));
    node.world.runtime.stopSandbox([...node.world.runtime.sandboxes.keys()][0]!);
    until('Failed', () => node.phase('u1') === 'Failed');
    node.run(10_000);
    expect(started()).toHaveLength(1);
  });

  it('that vanished is made again', () => {
    boot({ uid: 'u1' });
    until('Running', running('u1'));
    node.world.runtime.removeSandbox([...node.world.runtime.sandboxes.keys()][0]!);
    until('a second start', () => started().length === 2);
    until('Running', running('u1'));
  });
});

describe('a sandbox that vanished before the pod was initialised', () => {
  it('has what ran in order run in order again', () => {
    const initContainers = ['first', 'second'].map((name) => ({ name, image: name === 'first' ? 'app:1' : 'late:1' }));
    boot({ uid: 'u1', spec: { initContainers } });
    for (const name of ['first', 'second']) node.world.runtime.programs.set(name, [{ runsMs: 100 }]);
    until('the first one', () => started().length === 1);
    node.run(5_000);
    node.world.runtime.removeSandbox([...node.world.runtime.sandboxes.keys()][0]!);
    node.run(5_000);
    node.world.registry.set('late:1', image('late:1'));
    until('Running', running('u1'), 60_000);
    expect(started().slice(1)).toEqual(['web-node/first#1', 'web-node/second#0', 'web-node/app#0']);
  });
});

it('a static pod is as old as what runs of it, whatever agent began it', () => {
  boot({ uid: 'u1' });
  until('Running', running('u1'));
  const { startTime } = node.status('u1')!;
  node.run(40_000);
  node = node.restart();
  until('Running', running('u1'));
  expect(node.status('u1')?.startTime).toBe(startTime);
});

describe('a pod with a deadline', () => {
  const OVERDUE = 'DeadlineExceeded: Pod was active on the node longer than the specified deadline';

  it('fails when it was active for too long, counted over a restart of the agent', () => {
    boot({ uid: 'u1', spec: { activeDeadlineSeconds: 60 } });
    until('Running', running('u1'));
    node.run(40_000);
    node = node.restart();
    until('Running', running('u1'));
    node.run(10_000);
    expect(running('u1')()).toBe(true);
    node.run(12_000);
    expect(node.status('u1')).toMatchObject({
      phase: 'Failed',
      reason: 'DeadlineExceeded',
      message: 'Pod was active on the node longer than the specified deadline',
    });
    expect(node.podState('u1')).toEqual({ terminated: 'kept' });
    expect(node.world.runtime.running('app')).toBeUndefined();
    expect(node.events().filter((each) => /^(DeadlineExceeded|Killing)/.test(each))).toEqual([
      ...Array.from({ length: 2 }, () => OVERDUE),
      'Killing: Stopping container app',
      ...Array.from({ length: 2 }, () => OVERDUE),
    ]);
  });

  it('fails at the new one when it was made shorter', () => {
    boot({ uid: 'u1', spec: { activeDeadlineSeconds: 5_000 } });
    until('Running', running('u1'));
    const { asked } = (node.kernel.snapshotOf('kubelet/pods/pod-u1') as never as { context: { asked: Pod } }).context;
    const pods = [{ ...asked, spec: { ...asked.spec, activeDeadlineSeconds: 60 } }];
    node.kernel.dispatch('kubelet/pods', { type: 'config.pods', op: 'UPDATE', source: 'api', pods }, 'test');
    node.run(50_000);
    expect(running('u1')()).toBe(true);
    node.run(12_000);
    expect(node.status('u1')).toMatchObject({ phase: 'Failed', reason: 'DeadlineExceeded' });
  });

  it('is given nothing more when it is over before the agent begins', () => {
    boot({ uid: 'u1', spec: { activeDeadlineSeconds: 60 } });
    until('Running', running('u1'));
    const [sandbox = ''] = node.world.runtime.sandboxes.keys();
    node.world.detach();
    node.world.runtime.stopSandbox(sandbox);
    node = node.restart(120_000);
    node.run(30_000);
    expect(node.status('u1')).toMatchObject({ phase: 'Failed', reason: 'DeadlineExceeded' });
    expect(node.events().filter((each) => each.startsWith('SandboxChanged'))).toEqual([]);
    expect(node.world.callsOf('cri.runPodSandbox')).toHaveLength(1);
  });

  it('that ended in time stays as it ended', () => {
    boot({ uid: 'u1', spec: { activeDeadlineSeconds: 60, restartPolicy: 'Never' } });
    node.world.runtime.programs.set('app', [{ runsMs: 1_000 }]);
    until('Succeeded', () => node.phase('u1') === 'Succeeded');
    node.run(120_000);
    expect(node.phase('u1')).toBe('Succeeded');
  });
});
