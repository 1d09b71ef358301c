/** Lifecycle hooks: they run after a container's start and before its end, within its grace period. */
import { afterEach, describe, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';

let node: PodsNode;
function boot(lifecycle: object, spec: Record<string, unknown> = {}, ports: object[] = []): PodsNode {
  node = new PodsNode();
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([
    manifest({ uid: 'u1', spec, containers: [{ name: 'app', image: 'app:1', lifecycle, ports }] }),
  ]);
  node.world.commands.set('slow', { takesMs: 3_000, exitCode: 0 }).set('bad', { takesMs: 10, exitCode: 1 });
  node.world.commands.set('loud', { takesMs: 10, exitCode: 1, stdout: 'yes\n', stderr: 'no\n' });
  node.world.commands.set('endless', { takesMs: Number.MAX_SAFE_INTEGER / 10_000, exitCode: 0 });
  return node.boot();
}
const running = () => node.phase('u1') === 'Running';
const started = () => node.world.runtime.started.length > 0;
const gone = () => node.podState('u1') === undefined;
const stopInputs = () =>
  node.sink.records.flatMap((each) => (each.k === 'effect' && each.name === 'cri.stopContainer' ? [each.input] : []));

function removalTakes(): number {
  const begin = node.time.ms;
  node.world.setManifests([]);
  node.until('gone', gone);
  return node.time.ms - begin;
}

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('the end of a pod whose definition went while its agent was dead', () => {
  const execs = () =>
    node.sink.records.flatMap((each) => (each.k === 'effect' && each.name === 'cri.execSync' ? [each.input] : []));
  const requests = () =>
    node.sink.records.flatMap((each) => (each.k === 'effect' && each.name === 'probe.httpHook' ? [each.input] : []));

  function orphaned(lifecycle: object, ports: object[] = [], annotations: Record<string, string> = {}): void {
    boot(lifecycle, {}, ports).until('Running', running);
    for (const container of node.world.runtime.containers.values()) {
      const { config } = container;
      Object.assign(container, { config: { ...config, annotations: { ...config.annotations, ...annotations } } });
    }
    node.world.manifests = [];
    node = node.restart();
    node.until('it is found', () => !gone()).until('gone', gone);
  }

  it('runs the hook that is written on the container, within one second', () => {
    orphaned({ preStop: { exec: { command: ['slow'] } } });
    expect(execs()).toMatchObject([{ command: ['slow'] }]);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 2 }]);
    expect(node.events()).toContain('FailedPreStopHook: PreStopHook failed');
  });

  it('finds a named port where it is written', () => {
    const ports = [{ name: 'web', containerPort: 8080 }];
    orphaned({ preStop: { httpGet: { port: 'web', path: '/bye' } } }, ports);
    expect(requests()).toMatchObject([{ url: expect.stringMatching(/^http:\/\/10\.[\d.]+:8080\/bye$/) }]);
  });

  it.each([
    ['{"exec":{"command":7}}', '[]'],
    ['{"httpGet":{"port":"web","httpHeaders":{}}}', '[]'],
    ['{', '[]'],
    ['[]', '{}'],
    ['null', 'null'],
    ['{"sleep":{"seconds":"long"}}', '[7]'],
  ])('takes %s with the ports %s for no hook', (handler, ports) => {
    orphaned({ preStop: { exec: { command: ['bad'] } } }, [], {
      'io.kubernetes.container.preStopHandler': handler,
      'io.kubernetes.container.ports': ports,
    });
    expect([...execs(), ...requests()]).toEqual([]);
    expect(stopInputs()).toHaveLength(1);
  });
});

describe('preStop', () => {
  it('runs before the stop signal, and its time is gone from the grace', () => {
    boot({ preStop: { exec: { command: ['slow'] } } }, { terminationGracePeriodSeconds: 10 }).until('Running', running);
    node.world.runtime.running('app')!.program = { stopsMs: Number.POSITIVE_INFINITY };
    expect(Math.round(removalTakes() / 1_000)).toBe(10);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 7 }]);
  });

  it('that never ends has the grace and no more; two seconds are left for the signal', () => {
    boot({ preStop: { exec: { command: ['endless'] } } }, { terminationGracePeriodSeconds: 5 }).until(
      'Running',
      running,
    );
    expect(Math.round(removalTakes() / 1_000)).toBe(5);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 2 }]);
    expect(node.events()).toContain('FailedPreStopHook: PreStopHook failed');
  });

  it.each<[string, object, takesMs: number, exitCode: number, failed: readonly number[]]>([
    ['late', { exec: { command: ['late'] } }, 6_000, 0, [0, 0]],
    ['late', { exec: { command: ['late'] } }, 6_000, 1, [1, 1]],
    ['late', { exec: { command: ['late'] } }, 600_000, 0, [0, 1]],
    ['http://10.0.0.1:81/', { httpGet: { port: 81 } }, 6_000, 0, [0, 0]],
    ['http://10.0.0.1:81/', { httpGet: { port: 81 } }, 600_000, 0, [0, 1]],
  ])('%s %j runs on while its container stops: %d ms, code %d; failed then, and at its end: %j', (...row) => {
    const [command, preStop, takesMs, exitCode, failed] = row;
    boot({ preStop }, { terminationGracePeriodSeconds: 5 }).until('running', running);
    node.world.commands.set(command, { takesMs, exitCode });
    node.world.runtime.running('app')!.program = { stopsMs: Number.POSITIVE_INFINITY };
    const failures = () => node.events().filter((each) => each === 'FailedPreStopHook: PreStopHook failed').length;
    const began = node.time.ms;
    node.world.setManifests([]);
    node.run(6_500);
    const before = failures();
    node.until('gone', gone);
    expect([before, failures()]).toEqual(failed);
    expect(Math.round((node.time.ms - began) / 1_000)).toBe(7);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 2 }]);
  });

  it('whose container ends by itself has failed', () => {
    boot({ preStop: { exec: { command: ['endless'] } } }).until('Running', running);
    node.world.setManifests([]);
    node.run(1_000);
    node.world.runtime.exit(node.world.runtime.running('app')!, 0);
    node.until('gone', gone);
    expect(node.events()).toContain('FailedPreStopHook: PreStopHook failed');
    expect(stopInputs()).toEqual([]);
  });

  it('that fails is told, and the container stops nevertheless', () => {
    boot({ preStop: { exec: { command: ['bad'] } } }).until('Running', running);
    expect(removalTakes()).toBeLessThan(1_000);
    expect(node.events()).toContain('FailedPreStopHook: PreStopHook failed');
  });

  it('sleeps', () => {
    boot({ preStop: { sleep: { seconds: 4 } } }).until('Running', running);
    expect(Math.round(removalTakes() / 1_000)).toBe(4);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 26 }]);
  });

  it('gets from its own pod, also by the name of a port', () => {
    const httpGet = { path: 'bye', port: 'web' };
    boot({ preStop: { httpGet } }, {}, [{ name: 'web', containerPort: 81 }]).until('running', running);
    node.world.commands.set('http://10.0.0.1:81/bye', { takesMs: 4_000, exitCode: 0 });
    expect(Math.round(removalTakes() / 1_000)).toBe(4);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 26 }]);
    expect(node.events().filter((each) => each.includes('Hook'))).toEqual([]);
  });

  it('that gets no answer has the grace and no more', () => {
    boot({ preStop: { httpGet: { port: 81 } } }, { terminationGracePeriodSeconds: 5 }).until('running', running);
    node.world.commands.set('http://10.0.0.1:81/', { takesMs: 1_000_000, exitCode: 0 });
    expect(Math.round(removalTakes() / 1_000)).toBe(5);
    expect(node.events()).toContain('FailedPreStopHook: PreStopHook failed');
  });

  it('of a kind that cannot be run says so', () => {
    boot({ preStop: { httpGet: { path: '/', port: 'nowhere' } } }).until('Running', running);
    expect(removalTakes()).toBeLessThan(1_000);
    expect(node.events()).toContain('FailedPreStopHook: PreStopHook failed');
  });

  it('leaves two seconds even where the grace is shorter', () => {
    boot({}, { terminationGracePeriodSeconds: 1 }).until('running', running);
    removalTakes();
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 2 }]);
  });
});

describe('postStart', () => {
  it('runs once, after the start', () => {
    boot({ postStart: { exec: { command: ['slow'] } } }).until('Running', running);
    node.run(60_000);
    expect(node.world.callsOf('cri.execSync')).toHaveLength(1);
    expect(node.world.runtime.started).toEqual(['web-node/app#0']);
  });

  it('is part of the start: until it is done the world does not see the container', () => {
    boot({ postStart: { exec: { command: ['slow'] } } }).run(2_000);
    expect(node.world.runtime.started).toHaveLength(1);
    expect(node.phase('u1')).toBe('Pending');
    expect(node.status('u1')?.containerStatuses?.[0]).toMatchObject({
      ready: false,
      state: { waiting: { reason: 'ContainerCreating' } },
    });
    node.run(2_000);
    expect([node.phase('u1'), node.status('u1')?.containerStatuses?.[0]?.ready]).toEqual(['Running', true]);
  });

  it('gets over HTTP, and tells when HTTPS was not spoken', () => {
    boot({ postStart: { httpGet: { scheme: 'HTTPS', port: 443, host: 'example.test' } } });
    node.world.answers.set('https://example.test:443/', { result: 'warning', output: '' });
    node.until('Running', running);
    node.run(1_000);
    expect(node.events()).toContain(
      'LifecycleHTTPFallback: request to HTTPS lifecycle hook example.test:443 got HTTP response, retry with HTTP succeeded',
    );
  });

  it('that gets no answer ends the container', () => {
    boot({ postStart: { httpGet: { port: 80 } } });
    node.world.answers.set('http://10.0.0.1:80/', { result: 'failure', output: 'connection refused' });
    node.until('Running again', () => node.world.runtime.started.length === 2);
    expect(node.events()).toContain('FailedPostStartHook: PostStartHook failed');
  });

  it('that fails ends the container, which then follows its restart policy and back-off', () => {
    boot({ postStart: { exec: { command: ['bad'] } } }).until(
      'three starts',
      () => node.world.runtime.started.length === 3,
    );
    expect(node.events()).toContain('FailedPostStartHook: PostStartHook failed');
    expect(node.events()).toContain('Killing: FailedPostStartHook');
    const [first, second, third] = node.world.callsOf('cri.startContainer').map(({ atMs }) => atMs);
    expect(second! - first!).toBeLessThan(1_000);
    expect(third! - second!).toBeGreaterThanOrEqual(10_000);
  });

  it('that fails is why the next instance waits', () => {
    boot({ postStart: { exec: { command: ['bad'] } } });
    node.until('two starts', () => node.world.runtime.started.length === 2);
    node.run(2_000);
    expect(node.status('u1')?.containerStatuses?.[0]?.state?.waiting).toEqual({
      reason: 'PostStartHookError',
      message:
        'Exec lifecycle hook ([bad]) for Container "app" in Pod "web-node_default(u1)" failed - error: ' +
        `command 'bad' exited with 1: , message: ""`,
    });
  });

  it('that fails is told with what it said of its error, and then with all', () => {
    boot({ postStart: { exec: { command: ['loud'] } } });
    node.until('two starts', () => node.world.runtime.started.length === 2);
    node.run(2_000);
    expect(node.status('u1')?.containerStatuses?.[0]?.state?.waiting?.message).toContain(
      `command 'loud' exited with 1: no\n, message: "yes\\nno\\n"`,
    );
  });

  it.each([
    [
      { tcpSocket: { port: 80 } },
      'Cannot run handler: invalid handler: &LifecycleHandler{Exec:nil,HTTPGet:nil,' +
        'TCPSocket:&TCPSocketAction{Port:{0 80 },Host:,},Sleep:nil,}',
    ],
    [
      { httpGet: { path: '/x', port: 'nope' } },
      'HTTP lifecycle hook (/x) for Container "app" in Pod "web-node_default(u1)" failed - error: ' +
        'strconv.Atoi: parsing "nope": invalid syntax',
    ],
  ])('that cannot be run (%j) says why', (postStart, message) => {
    boot({ postStart });
    node.until('two starts', () => node.world.runtime.started.length === 2);
    node.run(2_000);
    expect(node.status('u1')?.containerStatuses?.[0]?.state?.waiting).toEqual({
      reason: 'PostStartHookError',
      message,
    });
  });

  it('that fails ends a pod that never restarts', () => {
    boot({ postStart: { exec: { command: ['bad'] } } }, { restartPolicy: 'Never' });
    node.until('Failed', () => node.phase('u1') === 'Failed');
    node.run(30_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('does not hold up a removal', () => {
    boot({ postStart: { exec: { command: ['endless'] } } }).until('the start', started);
    expect(removalTakes()).toBeLessThan(1_000);
  });
});
