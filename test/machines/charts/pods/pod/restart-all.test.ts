/** `restartPolicyRules` with the action `RestartAllContainers`: the whole pod starts again in its sandbox. */
import { afterEach, describe, expect, it } from 'vitest';
import { image, manifest, type PodOptions, PodsNode } from '../../../../support/pods-node.ts';

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

const rules = (...values: readonly number[]) => ({
  restartPolicy: 'Never',
  restartPolicyRules: [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values } }],
});
const container = (name: string, more: Record<string, unknown> = {}) => ({ name, image: 'app:1', ...more });

function boot(options: Omit<PodOptions, 'uid'>, programs: Readonly<Record<string, object[]>>): PodsNode {
  node = new PodsNode();
  node.world.runtime.images.set('app:1', image('app:1'));
  for (const [name, each] of Object.entries(programs)) node.world.runtime.programs.set(name, each);
  node.world.setManifests([manifest({ uid: 'u1', ...options })]);
  return node.boot();
}

const RESTARTED = {
  exitCode: 137,
  reason: 'RestartingAllContainers',
  message: 'The container is removed because RestartAllContainers in place',
};
const condition = (type: string) => node.status('u1')?.conditions?.find((each) => each.type === type);
const statuses = () => {
  const { initContainerStatuses = [], containerStatuses = [] } = node.status('u1') ?? {};
  return [...initContainerStatuses, ...containerStatuses];
};
const started = () => node.world.runtime.started.map((each) => each.replace('web-node/', ''));
const published = () =>
  node.sink.records.flatMap((record) =>
    record.k === 'message' && record.event.type === 'status.changed'
      ? [(record.event as unknown as { status: NonNullable<ReturnType<PodsNode['status']>> }).status]
      : [],
  );

describe('an end that requires a restart of all containers', () => {
  it('ends every instance, the one that requested it last, and starts them in order', () => {
    const names = ['init', 'sidecar', 'source', 'bystander'];
    boot(
      {
        spec: {
          restartPolicy: 'Never',
          initContainers: [container('init'), container('sidecar', { restartPolicy: 'Always' })],
        },
        containers: [
          container('bystander', { lifecycle: { preStop: { exec: { command: ['bye'] } } } }),
          container('source', rules(42)),
        ],
      },
      { init: [{ runsMs: 100 }], source: [{ runsMs: 5_000, exitCode: 42 }, {}], bystander: [{ stopsMs: 60_000 }] },
    );
    node.until('all ran twice', () => started().length === 8).run(1_000);
    expect(started().slice(0, 4)).toEqual(['init#0', 'sidecar#0', 'bystander#0', 'source#0']);
    expect(started().slice(4)).toEqual(['init#1', 'sidecar#1', 'bystander#1', 'source#1']);
    expect(node.world.callsOf('cri.runPodSandbox')).toHaveLength(1);
    expect(node.world.callsOf('cri.removeContainer')).toHaveLength(4);
    expect(node.world.callsOf('cri.execSync')).toEqual([]);
    expect(node.phase('u1')).toBe('Running');
    for (const name of names) {
      const status = statuses().find((each) => each.name === name);
      expect(status).toMatchObject({ restartCount: 1, lastState: { terminated: RESTARTED } });
    }
    expect(condition('AllContainersRestarting')).toMatchObject({ status: 'False' });
    expect(condition('AllContainersRestarting')).not.toHaveProperty('reason');
    expect(condition('AllContainersRestarting')).not.toHaveProperty('observedGeneration');
    expect(node.events().filter((each) => each.startsWith('Killing'))).toEqual([
      'Killing: killing',
      'Killing: killing',
    ]);
  });

  it('says so while it happens, and the pod stays initialised', () => {
    boot(
      { spec: { initContainers: [container('init')] }, containers: [container('source', rules(42))] },
      { init: [{ runsMs: 100 }], source: [{ runsMs: 5_000, exitCode: 42 }, {}] },
    );
    node.until('it ran twice', () => started().includes('source#1')).run(1_000);
    const during = published().filter(({ conditions = [] }) =>
      conditions.some(({ type, status }) => type === 'AllContainersRestarting' && status === 'True'),
    );
    expect(during.length).toBeGreaterThan(0);
    for (const { phase, conditions = [] } of during) {
      expect(phase).toBe('Running');
      expect(conditions).toContainEqual(
        expect.objectContaining({
          type: 'AllContainersRestarting',
          reason: 'RestartAllContainersStarted',
          message: 'container exited with restart policy rule',
        }),
      );
    }
    const waiting = published().flatMap(({ containerStatuses = [] }) => containerStatuses[0]?.state?.waiting ?? []);
    expect(waiting).toContainEqual({ reason: 'RestartingAllContainers', message: RESTARTED.message });
    const initialised = published().map(
      ({ conditions }) => conditions?.find(({ type }) => type === 'Initialized')?.status === 'True',
    );
    expect(initialised.slice(initialised.indexOf(true))).not.toContain(false);
  });

  it('may come from an init container, and a container that never ran does not count', () => {
    boot(
      {
        spec: { initContainers: [container('first'), container('source', rules(42))] },
        containers: [container('app')],
      },
      { first: [{ runsMs: 100 }], source: [{ runsMs: 100, exitCode: 42 }, { runsMs: 100 }] },
    );
    node.until('it runs', () => node.phase('u1') === 'Running').run(1_000);
    expect(started()).toEqual(['first#0', 'source#0', 'first#1', 'source#1', 'app#0']);
    expect(statuses().map(({ restartCount }) => restartCount)).toEqual([1, 1, 0]);
  });

  it('fails no pod whose own containers would stay ended', () => {
    const source = { ...container('source', rules(42)), restartPolicy: 'Always' };
    boot(
      { spec: { restartPolicy: 'Never', initContainers: [container('init'), source] }, containers: [container('app')] },
      { init: [{ runsMs: 100 }], source: [{ runsMs: 5_000, exitCode: 42 }, {}] },
    );
    node.until('all ran twice', () => started().length === 6).run(1_000);
    expect(published().map(({ phase }) => phase)).not.toContain('Failed');
    expect(node.phase('u1')).toBe('Running');
    expect(statuses().map(({ restartCount }) => restartCount)).toEqual([1, 1, 1]);
  });

  it('goes on where an agent that died left it', () => {
    boot(
      { spec: { restartPolicy: 'Never' }, containers: [container('bystander'), container('source', rules(42))] },
      { source: [{ runsMs: 5_000, exitCode: 42 }, {}] },
    );
    node.until('the first was taken away', () => node.world.callsOf('cri.removeContainer').length === 1);
    node = node.restart();
    node.until('both ran twice', () => started().length === 4).run(1_000);
    expect(started().slice(2)).toEqual(['bystander#1', 'source#1']);
    expect(node.phase('u1')).toBe('Running');
  });

  it('does nothing for another exit code, and nothing in a pod that ends', () => {
    boot(
      { spec: { restartPolicy: 'Never' }, containers: [container('other'), container('source', rules(42))] },
      { source: [{ runsMs: 5_000, exitCode: 1 }] },
    );
    node.until('it has ended', () => statuses().some(({ state }) => state?.terminated?.exitCode === 1)).run(5_000);
    expect(started()).toEqual(['other#0', 'source#0']);
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
  });
});
