/**
 * Lives of pods that no recording has: the consequences of an end, a change and a deadline, and the reports about them.
 */
import { afterEach, describe, expect, it } from 'vitest';
import type { Program } from '../../../../../src/simulation/world/runtime-model.ts';
import { image } from '../../../../support/pods-node.ts';
import { type ClusterNode, clusterNode } from './support.ts';

interface Life {
  readonly programs?: Readonly<Record<string, readonly Program[]>>;
  /** The commands of probes that fail. */
  readonly failing?: readonly string[];
}

let cluster: ClusterNode;
const container = (name: string, more: object = {}) => ({
  name,
  image: 'app:1',
  imagePullPolicy: 'IfNotPresent',
  ...more,
});
const probe = (command: string, more: object = {}) => ({
  exec: { command: [command] },
  periodSeconds: 5,
  failureThreshold: 1,
  ...more,
});
const status = () => cluster.kube.pod('p').status;
const statusOf = (name: string) =>
  [...(status().initContainerStatuses ?? []), ...(status().containerStatuses ?? [])].find(
    (each: { name: string }) => each.name === name,
  );
const started = () => cluster.node.world.runtime.started.map((each) => each.replace('p/', ''));
const events = (reason: string) =>
  cluster.kube
    .of('create')
    .filter(({ path, body }) => path.includes('events') && body.reason === reason)
    .map(({ body }) => `${body.involvedObject.fieldPath ?? ''} ${body.message}`);
const stops = () =>
  cluster.node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === 'cri.stopContainer'
      ? [[record.at.split('container-')[1]!.split('/')[0], (record.input as { timeoutSeconds: number }).timeoutSeconds]]
      : [],
  );

/** The states of containers in the published statuses, in order. */
const shown = () =>
  cluster.kube
    .of('patch')
    .filter(({ path }) => path.endsWith('pods/p/status'))
    .flatMap(({ body }) => (body.status.containerStatuses ?? []) as { state?: Record<string, unknown> }[])
    .flatMap(({ state = {} }) => Object.keys(state).filter((each) => state[each] !== null));

function live(spec: object, { programs = {}, failing = [] }: Life = {}): ClusterNode {
  cluster = clusterNode();
  const { node, kube } = cluster;
  for (const [name, each] of Object.entries(programs)) node.world.runtime.programs.set(name, [...each]);
  for (const command of failing) node.world.answers.set(command, { result: 'failure', output: 'no' });
  node.world.runtime.images.set('app:2', image('app:2'));
  node.boot().run(1_000);
  kube.createPod('p', { ...spec });
  return cluster;
}

function setImage(list: 'containers' | 'initContainers', to: string): void {
  const of = cluster.kube.pod('p').spec[list];
  cluster.kube.patch('pods', 'p', { spec: { [list]: of.map((each: object) => ({ ...each, image: to })) } });
}

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('a probe that ends a container', () => {
  const dying = (policy: string) => ({
    restartPolicy: policy,
    containers: [container('a', { livenessProbe: probe('live', { initialDelaySeconds: 11 }) })],
  });
  const killed = { failing: ['live'], programs: { a: [{ stopExitCode: 0 }] } };

  it('brings it back although it ended well, and at once when it had run longer than its back-off', () => {
    const { node } = live(dying('OnFailure'), killed);
    node.run(40_000);
    expect(started()).toEqual(['a#0', 'a#1', 'a#2', 'a#3']);
    expect(status().phase).toBe('Running');
    expect(events('Killing')).toEqual(['spec.containers{a} Container a failed liveness probe, will be restarted']);
    expect(events('BackOff')).toEqual([]);
  });

  it('does not publish its end: it runs until the next instance does, or is prevented from it', () => {
    const { node } = live(dying('OnFailure'), killed);
    node.run(40_000);
    expect(shown()).not.toContain('terminated');
    expect(statusOf('a')).toMatchObject({ restartCount: 3, lastState: { terminated: { exitCode: 0 } } });
    const crashing = { containers: [container('a', { livenessProbe: probe('live', { initialDelaySeconds: 1 }) })] };
    live(crashing, killed).node.run(12_000);
    expect(shown().at(-1)).toBe('waiting');
    expect(shown()).not.toContain('terminated');
    expect(statusOf('a')).toMatchObject({
      state: { waiting: { reason: 'CrashLoopBackOff' } },
      lastState: { terminated: { exitCode: 0 } },
    });
  });

  it('shows the end of one that ends by itself', () => {
    live({ containers: [container('a')] }, { programs: { a: [{ runsMs: 2_000, exitCode: 1 }] } }).node.run(5_000);
    expect(shown()).toContain('terminated');
  });

  it('does not say that it comes again where it does not', () => {
    const spec = dying('Never');
    live({ ...spec, containers: [...(spec.containers ?? []), container('b')] }, { failing: ['live'] }).node.run(20_000);
    expect(events('Killing')).toEqual(['spec.containers{a} Container a failed liveness probe']);
    expect(status()).toMatchObject({ phase: 'Running' });
  });

  it('ends the pod where nothing else of it goes on', () => {
    live(dying('Never'), { failing: ['live'] }).node.run(20_000);
    expect(events('Killing')).toEqual(['spec.containers{a} Stopping container a']);
    expect(status()).toMatchObject({ phase: 'Failed' });
  });

  it('says of a sidecar that it is one', () => {
    const sidecar = container('s', { restartPolicy: 'Always', startupProbe: probe('up') });
    live({ initContainers: [sidecar], containers: [container('a')] }, { failing: ['up'] }).node.run(8_000);
    expect(events('Killing')).toEqual(['spec.initContainers{s} Init container s failed startup probe']);
    expect(started()).toContain('s#1');
  });
});

describe('another image', () => {
  const CRASH = { runsMs: 100, exitCode: 1 };

  it('is taken by a sidecar at once, and by what initialises never', () => {
    const initContainers = [container('s', { restartPolicy: 'Always' }), container('i')];
    const { node } = live({ initContainers, containers: [container('a')] }, { programs: { i: [{ runsMs: 9_000 }] } });
    node.until('it initialises', () => started().includes('i#0'));
    setImage('initContainers', 'app:2');
    node.run(5_000);
    expect(events('Killing')).toEqual(['spec.initContainers{s} Init container s definition changed']);
    expect(started()).toEqual(['s#0', 'i#0', 's#1']);
    node.run(6_000);
    expect(started()).toEqual(['s#0', 'i#0', 's#1', 'a#0']);
  });

  it('is tried at once, whatever the one before was waiting for', () => {
    const { node } = live({ containers: [container('a')] }, { programs: { a: [CRASH, CRASH, {}] } });
    node.until('the back-off', () => statusOf('a')?.state.waiting?.reason === 'CrashLoopBackOff');
    setImage('containers', 'app:2');
    node.run(1_000);
    expect(statusOf('a')).toMatchObject({ state: { running: {} }, restartCount: 2, image: 'app:2' });
  });

  it('is tried at once if the previous one could not be pulled, and the old answer is ignored', () => {
    const { node } = live({ containers: [container('a', { image: 'missing:1' })] });
    node.run(300);
    setImage('containers', 'app:2');
    node.run(5_000);
    expect(statusOf('a')).toMatchObject({ state: { running: {} }, restartCount: 0 });
    setImage('containers', 'missing:2');
    node.until('it cannot be pulled', () => statusOf('a')?.state.waiting?.reason === 'ImagePullBackOff');
    setImage('containers', 'app:1');
    node.run(1_000);
    expect(statusOf('a')?.state).toHaveProperty('running');
  });

  it('restarts a container that would not restart otherwise', () => {
    const { node } = live({ restartPolicy: 'Never', containers: [container('a')] });
    node.run(3_000);
    setImage('containers', 'app:2');
    node.run(10_000);
    expect(started()).toEqual(['a#0', 'a#1']);
    expect(status()).toMatchObject({ phase: 'Running' });
  });
});

describe('what is said of images', () => {
  it('is said when their containers come to use them: never of those that are not reached', () => {
    live(
      {
        restartPolicy: 'Never',
        initContainers: [container('i'), container('j', { image: 'missing:1' })],
        containers: [container('a')],
      },
      { programs: { i: [{ runsMs: 500, exitCode: 1 }] } },
    ).node.run(10_000);
    expect(status().phase).toBe('Failed');
    const words = 'Container image "app:1" already present on machine and can be accessed by the pod';
    expect(events('Pulled')).toEqual([`spec.initContainers{i} ${words}`]);
    expect(events('Pulling')).toEqual([]);
    expect(statusOf('j')?.state).toMatchObject({ waiting: { reason: 'PodInitializing' } });
  });
});

describe('sidecars', () => {
  it('run their hooks at once and stop in their turn, the last one first', () => {
    const sleep = (seconds: number) => ({ lifecycle: { preStop: { sleep: { seconds } } } });
    const { node, kube } = live(
      {
        terminationGracePeriodSeconds: 10,
        initContainers: [
          container('s1', { restartPolicy: 'Always', ...sleep(2) }),
          container('s2', { restartPolicy: 'Always' }),
        ],
        containers: [container('a', sleep(4))],
      },
      { programs: { s2: [{ stopsMs: 2_000 }] } },
    );
    node.run(3_000);
    kube.delete('pods', 'p');
    node.until('gone', () => kube.pod('p') === undefined);
    expect(stops()).toEqual([
      ['a', 6],
      ['s2', 6],
      ['s1', 4],
    ]);
  });

  it('wait for their turn no longer than the grace, and keep it when the grace shrinks', () => {
    const { node, kube } = live(
      {
        terminationGracePeriodSeconds: 60,
        initContainers: [container('s', { restartPolicy: 'Always' })],
        containers: [container('a')],
      },
      { programs: { a: [{ stopsMs: 1_000_000 }] } },
    );
    node.run(3_000);
    kube.delete('pods', 'p');
    node.run(5_000);
    kube.delete('pods', 'p', 3);
    node.until('gone', () => kube.pod('p') === undefined);
    expect(stops()).toEqual([
      ['a', 60],
      ['a', 3],
      ['s', 2],
    ]);
  });

  it('show how they ended well while they wait to come again', () => {
    live(
      { initContainers: [container('s', { restartPolicy: 'Always' })], containers: [container('a')] },
      { programs: { s: [{ runsMs: 1_000 }] } },
    ).node.run(6_000);
    expect(statusOf('s')).toMatchObject({ state: { terminated: { exitCode: 0 } }, restartCount: 1 });
    expect(events('BackOff')).toHaveLength(1);
  });
});

describe('the end of a pod', () => {
  const LOST = { reason: 'ContainerStatusUnknown', exitCode: 137 };
  const overdue = (spec: object, life?: Life) => live({ activeDeadlineSeconds: 8, ...spec }, life).node.run(12_000);

  it('finds a container that waited to come again nowhere, also where its last end is known', () => {
    overdue({ containers: [container('a'), container('b')] }, { programs: { a: [{ runsMs: 100, exitCode: 3 }] } });
    expect(status()).toMatchObject({ phase: 'Failed', reason: 'DeadlineExceeded' });
    expect(statusOf('a')).toMatchObject({ state: { terminated: LOST }, lastState: { terminated: { exitCode: 3 } } });
    expect(statusOf('b').state.terminated.reason).not.toBe(LOST.reason);
  });

  it('is no turn for those that come after an init container, however that one ends', () => {
    overdue(
      { initContainers: [container('i')], containers: [container('a')] },
      { programs: { i: [{ stopExitCode: 0 }] } },
    );
    expect(statusOf('i').state.terminated.exitCode).toBe(0);
    expect(statusOf('a').state).toEqual({ waiting: { reason: 'PodInitializing' } });
  });
});

it('a sidecar whose start fails in its hook has never initialised its pod', () => {
  const lifecycle = { postStart: { exec: { command: ['greet'] } } };
  const initContainers = [container('s', { restartPolicy: 'Always', lifecycle })];
  const { node } = live({ initContainers, containers: [container('a')] });
  node.world.commands.set('greet', { takesMs: 100, exitCode: 1 });
  node.run(20_000);
  expect(statusOf('s').lastState.terminated).toBeDefined();
  const initialized = cluster.kube
    .of('patch')
    .flatMap(({ body }) => (body.status?.conditions ?? []) as { type: string; status?: string }[])
    .filter(({ type }) => type === 'Initialized');
  expect(new Set(initialized.map((each) => each.status ?? 'False'))).toEqual(new Set(['False']));
});

describe('a pod that has finished', () => {
  it('says nothing of an ephemeral container that comes too late', () => {
    const { node, kube } = live(
      { restartPolicy: 'Never', containers: [container('a')] },
      { programs: { a: [{ runsMs: 500 }] } },
    );
    node.until('it has succeeded', () => status().phase === 'Succeeded').run(1_000);
    const before = status();
    kube.patch('pods', 'p', { spec: { ephemeralContainers: [container('d')] } }, 'ephemeralcontainers');
    node.run(20_000);
    expect(status()).toEqual(before);
  });
});

describe('restartPolicyRules', () => {
  const rule = (action: string, operator: string, values: number[]) => ({ action, exitCodes: { operator, values } });

  it('count in their order: the first that fits decides', () => {
    const rules = [rule('Restart', 'In', [3]), rule('RestartAllContainers', 'NotIn', [0, 1])];
    live(
      { restartPolicy: 'Never', containers: [container('a', { restartPolicy: 'Never', restartPolicyRules: rules })] },
      {
        programs: {
          a: [
            { runsMs: 100, exitCode: 3 },
            { runsMs: 100, exitCode: 1 },
          ],
        },
      },
    ).node.run(20_000);
    expect(started()).toEqual(['a#0', 'a#1']);
    expect(status()).toMatchObject({ phase: 'Failed' });
    // The first instance is not kept beside the second one.
    expect(cluster.node.world.callsOf('cri.removeContainer')).toHaveLength(1);
  });

  it('do not make an init container that succeeded run again', () => {
    const rules = [rule('Restart', 'In', [0])];
    live(
      {
        initContainers: [container('i', { restartPolicy: 'Never', restartPolicyRules: rules })],
        containers: [container('a')],
      },
      { programs: { i: [{ runsMs: 100 }] } },
    ).node.run(5_000);
    expect(started()).toEqual(['i#0', 'a#0']);
  });
});
