/** Probes with a modelled runtime: proves R1 to R4 of `prober-policy.ts` and B1, B2 of `prober.ts`. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const FAIL = { result: 'failure', output: '' } as const;
const FINE = { result: 'success', output: '' } as const;
const exec = (command: string, more: object = {}) => ({ exec: { command: [command] }, periodSeconds: 1, ...more });

let node: PodsNode;
function prepare(app: object, spec: Record<string, unknown> = {}, settings: Partial<NodeSettings> = {}): PodsNode {
  node = new PodsNode({ settings });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: 'u1', spec, containers: [{ name: 'app', image: 'app:1', ...app }] })]);
  return node;
}
const boot = (app: object, spec: Record<string, unknown> = {}): PodsNode => prepare(app, spec).boot();
const app = () => node.status('u1')?.containerStatuses?.[0];
const isReady = () => app()?.ready === true;
const runs = () => app()?.state?.running !== undefined;
const condition = (name: string) => node.status('u1')?.conditions?.find(({ type }) => type === name)?.status;
const attempts = (asked: string) => node.world.attempts.filter((each) => each.asked === asked);
const stopInputs = () =>
  node.sink.records.flatMap((each) => (each.k === 'effect' && each.name === 'cri.stopContainer' ? [each.input] : []));

let crashes: unknown[] = [];
beforeEach(() => {
  crashes = [];
});
afterEach(() => {
  expect(node.crashes()).toEqual(crashes);
  node.assertReplays();
});

describe('readiness', () => {
  it('is what its probe says, and so is the pod', () => {
    prepare({ readinessProbe: exec('ready', { failureThreshold: 2 }) }).world.answers.set('ready', FAIL);
    node.boot().until('running', runs);
    node.run(3_000);
    expect([isReady(), condition('Ready'), condition('ContainersReady')]).toEqual([false, 'False', 'False']);
    node.world.answers.set('ready', FINE);
    node.run(1_000);
    expect([isReady(), condition('Ready'), app()?.started]).toEqual([true, 'True', true]);
    node.world.answers.set('ready', FAIL);
    node.run(1_000);
    expect(isReady()).toBe(true);
    node.run(1_000);
    expect(isReady()).toBe(false);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('needs as many successes in a row as it is told', () => {
    boot({ readinessProbe: exec('ready', { successThreshold: 4 }) }).until('running', runs);
    node.until('ready', isReady);
    expect(attempts('ready')).toHaveLength(4);
  });

  it('is an event in each period while it names a port that the container does not have', () => {
    const reports = () =>
      node.sink.records.flatMap((each) =>
        each.k === 'log' && /probe errored/.test(String(each.fields?.['message'])) ? [each.fields!['message']] : [],
      );
    boot({ readinessProbe: { httpGet: { port: 'web' }, periodSeconds: 5, initialDelaySeconds: 2 } });
    node.until('running', runs);
    node.run(1_000);
    expect(reports()).toEqual([]);
    node.run(12_000);
    const text = 'Readiness probe errored and resulted in unknown state: strconv.Atoi: parsing "web": invalid syntax';
    expect(reports()).toEqual([text, text, text]);
    expect([isReady(), runs()]).toEqual([false, true]);
  });

  it('whose answer broke off is an event that tells of a failure', () => {
    boot({ readinessProbe: exec('ready') }).until('running', runs);
    node.world.answers.set('ready', { result: 'errored', output: 'unexpected EOF', state: 'failure' });
    node.run(11_000);
    expect(node.events()).toContain('Unhealthy: Readiness probe errored and resulted in failure state: unexpected EOF');
  });

  it.each([
    ['at each sync of the pod until it is ready, as by the kubelet', {}, 90, true],
    ['in its own period only, before', { behavior: nodeBefore('podDetailsAsKubelet') }, 590, false],
  ])('with a long period is asked %s', (_, settings, seconds, expected) => {
    prepare({ readinessProbe: exec('ready', { periodSeconds: 600 }) }, {}, settings).world.answers.set('ready', FAIL);
    node.boot().until('running', runs).run(1_000);
    node.world.answers.set('ready', FINE);
    node.run(55_000);
    expect(isReady()).toBe(false);
    node.run((seconds - 55) * 1_000);
    expect(isReady()).toBe(expected);
    const known = attempts('ready').length;
    node.run(300_000);
    if (expected) expect(attempts('ready')).toHaveLength(known);
  });

  it('is not asked before its initial delay', () => {
    boot({ readinessProbe: exec('ready', { initialDelaySeconds: 7 }) }).until('running', runs);
    const startedMs = node.time.ms;
    node.until('ready', isReady);
    expect(Math.round((node.time.ms - startedMs) / 1_000)).toBe(7);
  });

  it('goes on while the container stops, and its loss is seen', () => {
    boot({ readinessProbe: exec('ready', { failureThreshold: 1 }) }, { terminationGracePeriodSeconds: 20 });
    node.world.runtime.programs.set('app', [{ stopsMs: Number.POSITIVE_INFINITY }]);
    node.until('ready', isReady);
    node.world.setManifests([]);
    node.run(2_000);
    node.world.answers.set('ready', FAIL);
    node.until('not ready', () => !isReady(), 3_000);
    node.until('gone', () => node.podState('u1') === undefined);
  });

  it('begins anew with each instance', () => {
    boot({ readinessProbe: exec('ready') }).until('ready', isReady);
    node.world.answers.set('ready', FAIL);
    node.world.runtime.exit(node.world.runtime.running('app')!, 1);
    node.until('running again', () => app()?.restartCount === 1 && runs());
    node.run(5_000);
    expect(isReady()).toBe(false);
  });
});

describe('liveness', () => {
  it('ends an instance that fails, and another one comes', () => {
    boot({ livenessProbe: exec('alive', { failureThreshold: 3 }) }, { terminationGracePeriodSeconds: 9 });
    node.until('running', runs);
    node.world.answers.set('alive', { result: 'failure', output: 'gone\n' });
    node.until('restart', () => app()?.restartCount === 1 && runs());
    expect(node.events().filter((each) => /Unhealthy|Killing/.test(each))).toEqual([
      'Unhealthy: Liveness probe failed: gone\n',
      'Unhealthy: Liveness probe failed: gone\n',
      'Unhealthy: Liveness probe failed: gone\n',
      'Killing: Container app failed liveness probe, will be restarted',
    ]);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 9 }]);
  });

  it('has a grace of its own', () => {
    boot({ livenessProbe: exec('alive', { failureThreshold: 1, terminationGracePeriodSeconds: 3 }) });
    node.until('running', runs);
    node.world.answers.set('alive', FAIL);
    node.until('restart', () => app()?.restartCount === 1 && runs());
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 3 }]);
  });

  it('that fails ends a pod that never restarts', () => {
    boot({ livenessProbe: exec('alive', { failureThreshold: 1 }) }, { restartPolicy: 'Never' }).until('running', runs);
    node.world.answers.set('alive', FAIL);
    node.until('Failed', () => node.phase('u1') === 'Failed');
    node.run(60_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('asks no more about an instance that it has ended, nor about a pod that ends', () => {
    boot({ livenessProbe: exec('alive', { failureThreshold: 1 }) }, { terminationGracePeriodSeconds: 30 });
    node.world.runtime.programs.set('app', [{ stopsMs: Number.POSITIVE_INFINITY }]);
    node.until('running', runs);
    node.world.answers.set('alive', FAIL);
    node.run(5_000);
    const asked = attempts('alive').length;
    node.run(20_000);
    expect(attempts('alive')).toHaveLength(asked);
    node.world.answers.set('alive', FINE);
    node.until('restart', () => app()?.restartCount === 1 && runs());
    node.world.setManifests([]);
    node.run(1_000);
    const before = attempts('alive').length;
    node.run(20_000);
    expect(attempts('alive')).toHaveLength(before);
    expect(stopInputs()).toHaveLength(2);
  });
});

describe('the end of a pod whose container is being restarted', () => {
  it.each([
    ['shortens a longer grace', 600, 5, [600, 5]],
    ['leaves a shorter one', 4, 600, [4]],
  ])('%s', (_, own, ofPod, timeouts) => {
    const livenessProbe = exec('alive', { failureThreshold: 1, terminationGracePeriodSeconds: own });
    boot({ livenessProbe }, { terminationGracePeriodSeconds: ofPod }).until('running', runs);
    node.world.runtime.running('app')!.program = { stopsMs: Number.POSITIVE_INFINITY };
    node.world.answers.set('alive', FAIL);
    node.run(1_500);
    const begin = node.time.ms;
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
    expect(stopInputs()).toMatchObject(timeouts.map((timeoutSeconds) => ({ timeoutSeconds })));
    expect(node.time.ms - begin).toBeLessThan(6_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });
});

describe('startup', () => {
  const probes = {
    startupProbe: exec('up', { failureThreshold: 5 }),
    readinessProbe: exec('ready'),
    livenessProbe: exec('alive', { failureThreshold: 1 }),
  };

  it('comes before all others, and is over when it has succeeded', () => {
    prepare(probes).world.answers.set('up', FAIL).set('alive', FAIL);
    node.boot().until('running', runs);
    node.run(2_500);
    expect([app()?.started, isReady(), attempts('ready').length, attempts('alive').length]).toEqual([
      false,
      false,
      0,
      0,
    ]);
    node.world.answers.set('up', FINE).set('alive', FINE);
    node.until('ready', isReady);
    const asked = attempts('up').length;
    node.run(30_000);
    expect(app()?.started).toBe(true);
    expect(attempts('up')).toHaveLength(asked);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('that fails ends the instance', () => {
    prepare(probes).world.answers.set('up', FAIL);
    node.boot().until('restart', () => app()?.restartCount === 1 && runs());
    expect(node.events()).toContain('Killing: Container app failed startup probe, will be restarted');
    expect(attempts('up')).toHaveLength(5);
  });

  it('of a sidecar holds up what comes after it', () => {
    const side = { name: 'side', image: 'app:1', restartPolicy: 'Always', startupProbe: exec('up') };
    prepare({}, { initContainers: [side] }).world.answers.set('up', FAIL);
    node.boot().run(2_000);
    expect(node.world.runtime.started).toEqual(['web-node/side#0']);
    node.world.answers.set('up', FINE);
    node.until('running', runs);
    expect(node.world.runtime.started).toEqual(['web-node/side#0', 'web-node/app#0']);
  });
});

describe('what is asked', () => {
  it('is resolved: named port, address of the pod, literal variables', () => {
    boot({
      ports: [{ name: 'web', containerPort: 8080 }],
      env: [{ name: 'WHO', value: 'me' }],
      readinessProbe: { httpGet: { path: 'ok?x=1', port: 'web' }, periodSeconds: 1 },
      livenessProbe: { exec: { command: ['test', '$(WHO)', '$(OTHER)'] }, periodSeconds: 1 },
    }).until('ready', isReady);
    node.run(1_000);
    const asked = new Set(node.world.attempts.map((each) => each.asked));
    expect(asked).toEqual(new Set(['http://10.0.0.1:8080/ok?x=1', 'test me $(OTHER)']));
  });
});

describe('a restart of the agent', () => {
  it('keeps what was ready ready, and probes on', () => {
    boot({ startupProbe: exec('up'), readinessProbe: exec('ready', { periodSeconds: 10, failureThreshold: 1 }) });
    node.until('ready', isReady);
    node.run(5_000);
    node = node.restart();
    node.until('status', () => node.status('u1') !== null && runs());
    expect([app()?.started, isReady()]).toEqual([true, true]);
    const ups = attempts('up').length;
    node.world.answers.set('ready', FAIL);
    node.until('not ready', () => !isReady(), 21_000);
    expect(attempts('up')).toHaveLength(ups);
  });

  it('invents no verdict where nothing is known', () => {
    boot({ readinessProbe: exec('ready', { periodSeconds: 10 }) }).until('ready', isReady);
    node.run(60_000);
    node.world.softState = { containers: {}, probes: {} };
    node = node.restart();
    node.until('status', () => node.status('u1') !== null && runs());
    expect(isReady()).toBe(false);
    node.until('ready', isReady, 11_000);
  });
});

describe('an idle node with probes', () => {
  it('writes nothing, however often they ask', () => {
    boot({ readinessProbe: exec('ready'), livenessProbe: exec('alive') }).until('ready', isReady);
    node.run(10_000);
    const [records, asked] = [node.sink.records.length, node.world.attempts.length];
    node.run(40_000);
    expect(node.world.attempts.length - asked).toBe(80);
    expect(node.sink.records.length - records).toBe(0);
  });

  it('of more than the burst of reports says no more', () => {
    boot({ readinessProbe: exec('ready') }).until('ready', isReady);
    for (let n = 0; n < 100; n++) {
      node.world.answers.set('ready', { result: 'failure', output: `at ${n}` });
      node.run(1_000);
    }
    expect(node.sink.records.filter((each) => each.k === 'in' && each.event.type === 'probe.reported')).toHaveLength(
      25,
    );
  });
});

describe('prober', () => {
  it('comes again after a crash, and its pod lives on', () => {
    const at = 'kubelet/pods/pod-u1/prober-app-readiness';
    crashes = [expect.stringMatching(`^${at}: `)];
    boot({ readinessProbe: exec('ready', { failureThreshold: 1 }) }).until('ready', isReady);
    node.kernel.dispatch(at, { type: 'xstate.error.actor.watch' }, 'test');
    node.run(100);
    expect([isReady(), node.kernel.snapshotOf(at)]).toEqual([true, undefined]);
    node.world.answers.set('ready', FAIL);
    node.until('not ready', () => !isReady(), 15_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it.each([true, false])('is remembered when the actor of its pod crashes: ready %s', (wasReady) => {
    crashes = [expect.stringMatching(/^kubelet\/pods\/pod-u1: /)];
    prepare({ readinessProbe: exec('ready', { periodSeconds: 60, failureThreshold: 1 }) });
    node.boot().until('ready', isReady);
    if (!wasReady) {
      node.world.answers.set('ready', FAIL);
      node.until('not ready', () => !isReady());
    }
    const asked = attempts('ready').length;
    node.kernel.dispatch('kubelet/pods/pod-u1', { type: 'runtime.podChanged' }, 'test');
    node.run(1);
    expect(node.podState('u1')).toBeUndefined();
    node.until('back', () => node.podState('u1') !== undefined && runs());
    expect([isReady(), attempts('ready').length]).toEqual([wasReady, asked]);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('watches again after a watch that failed', () => {
    boot({ readinessProbe: exec('ready') }).world.fault = (name, _, nth) =>
      name === 'probe.watch' && nth < 3 ? { error: 'out of sockets' } : undefined;
    node.until('ready', isReady);
    expect(node.logs('Probing failed')).toHaveLength(3);
  });
});
