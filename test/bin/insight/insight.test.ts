/** The reports about starts of the real supervisor in a scripted machine, in which every duration is known. */
import { describe, expect, it } from 'vitest';
import { blame, describeBlame } from '../../../src/bin/insight/blame.ts';
import { startIsGone } from '../../../src/bin/insight/command.ts';
import { causesOf, criticalChain, describeChain, type Goal, goalOf } from '../../../src/bin/insight/critical-chain.ts';
import { compare, describeComparison } from '../../../src/bin/insight/diff.ts';
import { describeStartupTime, isStartReported, startupTime } from '../../../src/bin/insight/startup-time.ts';
import { type Moment, type Operation, Story, type StorySource } from '../../../src/bin/insight/story.ts';
import { describeWhy, SUBJECT, type Why, why } from '../../../src/bin/insight/why.ts';
import { table } from '../../../src/bin/printable.ts';
import type { GapRecord, HeaderRecord, JournalRecord, KernelRecord } from '../../../src/kernel/records.ts';
import { BootNode, type BootOptions, fail } from '../../machines/startup/boot-node.ts';
import { image, manifest } from '../../support/pods-node.ts';

const none = () => undefined;
const storyOf = (
  records: readonly JournalRecord[],
  now = 0,
  checkpointAfter: StorySource['checkpointAfter'] = none,
): Story => new Story({ header: records[0] as HeaderRecord, checkpoint: undefined, records, checkpointAfter }, now);

interface Booted {
  readonly node: BootNode;
  readonly story: Story;
}

function boot(options: BootOptions = {}, prepare: (node: BootNode) => void = () => {}, ms = 60_000): Booted {
  const node = new BootNode(options);
  node.world.pods.registry.set('app:1', image('app:1'));
  node.world.pods.setManifests([manifest({ uid: 'u1' })]);
  prepare(node);
  node.boot().run(ms);
  return { node, story: storyOf(node.records) };
}

/** The records, followed by lines up to this number of records. */
function* prolonged(records: readonly KernelRecord[], count: number, everyMs: number): Generator<KernelRecord> {
  yield* records;
  const last = records.findLast((record) => 't' in record) as { readonly t: number };
  for (let n = records.length; n < count; n++)
    yield { n, k: 'timer', t: last.t + (n - records.length) * everyMs, id: 0, at: 'kubelet/pleg', event: 'again' };
}

const readUntil = (records: Iterable<JournalRecord>, header: JournalRecord, isEnough: (story: Story) => boolean) =>
  new Story({ header: header as HeaderRecord, checkpoint: undefined, records, checkpointAfter: none }, 0, isEnough);

const whyOf = ({ node, story }: Booted, subject: string): Why => {
  const report = why(story, subject, node.kernel.timers.list());
  if (typeof report === 'string') throw new Error(report);
  return report;
};

/** The name of the scripted manifest. */
const POD = manifest({ uid: 'u1' });
const podName = (POD.value as { metadata: { name: string } }).metadata.name;

describe('time', () => {
  it('adds up: each phase begins where the one before it ended', () => {
    const { story } = boot();
    const { phases, totalMs, complete, healthzMs, synchronizingMs, firstPod } = startupTime(story);
    expect(complete).toBe(true);
    const serial = phases.filter(({ name }) => /^(command|run)\./.test(name));
    serial.slice(1).forEach((phase, i) => {
      const before = serial[i]!;
      expect(phase.enteredMs, phase.name).toBe(before.enteredMs + before.tookMs!);
    });
    expect(serial.map(({ name }) => name)).toContain('run.runtimeService');
    expect(phases.find(({ name }) => name === 'run.hostname')).toMatchObject({ tookMs: 2, waitsFor: 'the host name' });
    expect(Math.max(healthzMs!, synchronizingMs!)).toBe(totalMs);
    expect(firstPod!.name).toContain(podName);
    expect(firstPod!.runningMs).toBeGreaterThan(synchronizingMs!);
  });

  it('says that a start which failed did, where, and why', () => {
    const answers = { 'host.machineInfo': fail('no /proc') };
    const time = startupTime(boot({ answers }).story);
    expect(time).toMatchObject({ complete: false, failure: 'failed to run Kubelet: no /proc' });
    expect(time.phases.at(-1)).toMatchObject({ name: 'run.cadvisor', tookMs: 2 });
    expect(describeStartupTime(time)).toMatch(
      /^Startup failed after \d+ ms\nrun\.cadvisor: failed to run Kubelet: no \/proc\n/,
    );
  });

  it('says that a start failed whose server could not listen, also where all phases were through before', () => {
    const { records } = boot({}, undefined, 3_000).node;
    expect(startupTime(storyOf(records))).toMatchObject({ complete: true });
    const fields = { err: 'bind: address already in use', phase: 'serving' };
    const failed = {
      k: 'log',
      n: records.length,
      at: 'kubelet',
      level: 'error',
      text: 'command failed',
      fields,
    } as const;
    const time = startupTime(storyOf([...records, failed]));
    expect(time).toMatchObject({ complete: false, failedIn: 'serving' });
    expect(describeStartupTime(time)).toMatch(/^Startup failed after [^]*\nserving: .*bind: address already in use\n/);
  });

  it('says that a phase waits still', () => {
    const time = startupTime(boot({ answers: { 'host.hostname': 'hangs' } }, undefined, 7_000).story);
    expect(time.phases.at(-1)).toMatchObject({ name: 'run.hostname', open: true });
    expect(describeStartupTime(time)).toMatch(/^Startup goes on after .*\n[^]*the host name \(still\)/);
  });
});

describe('blame', () => {
  it('measures each operation from its request to its answer', () => {
    const { story } = boot();
    const { operations, slowest } = blame(story);
    expect(operations[0]).toMatchObject({ name: 'cri.pullImage', count: 1, totalMs: 500, p50Ms: 500, maxMs: 500 });
    expect(operations.find(({ name }) => name === 'host.hostname')).toMatchObject({
      count: 1,
      totalMs: 2,
      failures: 0,
    });
    expect(slowest[0]).toMatchObject({ name: 'cri.pullImage', tookMs: 500, end: 'done' });
    expect(operations.map(({ name }) => name)).not.toContain('cri.watchPods');
    const totals = operations.map(({ totalMs }) => totalMs);
    expect(totals).toEqual(totals.toSorted((a, b) => b - a));
  });

  it('counts what failed, and what has no answer yet', () => {
    const { story } = boot({ answers: { 'host.permissions': fail('EPERM') } }, ({ world }) => {
      world.pods.fault = (name) => (name === 'cri.pullImage' ? { hangs: true } : undefined);
    });
    const report = blame(story);
    expect(report.operations.find(({ name }) => name === 'host.permissions')).toMatchObject({ failures: 1 });
    expect(report.operations[0]).toMatchObject({ name: 'cri.pullImage', open: 1 });
    expect(report.slowest[0]).toMatchObject({ name: 'cri.pullImage', end: 'open' });
    expect(describeBlame(report, story)).toMatch(/host.permissions +kubelet +failed: EPERM/);
  });

  it('takes a time that was measured for a percentile', () => {
    const operation = (id: number, ms: number) =>
      [id, { id, name: 'x', at: 'kubelet/x', class: 'query', began: 0, n: id, ended: ms, end: 'done' }] as const;
    const story = boot({}, undefined, 1).story;
    const operations = new Map([...Array(200).keys()].map((i) => operation(i, i + 1)));
    const report = blame(Object.assign(Object.create(story) as Story, { operations }));
    expect(report.operations).toMatchObject([{ p50Ms: 100, p99Ms: 198, maxMs: 200, totalMs: 20_100 }]);
  });
});

describe('critical-chain', () => {
  const chainTo = (story: Story, target?: string) => {
    const goal = goalOf(story, target);
    if (typeof goal === 'string') throw new Error(goal);
    return criticalChain(story, goal);
  };

  it.each([undefined, `pod/${podName}`])('to %s begins with the incarnation and has no hole', (target) => {
    const chain = chainTo(boot().story, target);
    expect(chain).toMatchObject({ whole: true });
    expect(chain.links[0]).toMatchObject({ n: 0, kind: 'start', atMs: 0 });
    chain.links.slice(1).forEach((link, i) => expect(link.atMs).toBe(chain.links[i]!.atMs + link.tookMs));
    expect(chain.workingMs + chain.waitingMs).toBe(chain.totalMs);
    expect(chain.totalMs).toBe(chain.links.at(-1)!.atMs);
  });

  it('to a pod goes through the pull of its image, and counts it as an answer', () => {
    const chain = chainTo(boot().story, `pod/${podName}`);
    expect(chain.links).toContainEqual(
      expect.objectContaining({ kind: 'operation', tookMs: 500, what: 'cri.pullImage answered' }),
    );
    expect(describeChain(chain)).toMatch(
      /^pod default\/\S+ is Running after .*waited .* for answers, .* for timers and events/,
    );
  });

  it('to a pod ends with its own calls: what the runtime says of it is what they did', () => {
    const { story } = boot({}, ({ world }) => {
      const faults = { 'cri.podStatus': { extraMs: 5_000 }, 'cri.startContainer': { showsNothing: true } };
      world.pods.fault = (name) => faults[name as keyof typeof faults];
    });
    const chain = chainTo(story, `pod/${podName}`);
    expect(chain.links.at(-1)).toMatchObject({ actor: 'pleg', what: 'runtime.podChanged from cri.watchPods' });
    const calls = chain.links.filter(({ actor }) => actor.startsWith('pod/')).map(({ what }) => what);
    expect(calls).toEqual(['host.preparePod answered', 'cri.createContainer answered', 'cri.startContainer answered']);
    expect(chain.workingMs / chain.totalMs).toBeGreaterThan(0.9);
  });

  it('counts a back-off as waiting', () => {
    let pulls = 0;
    const { story } = boot({}, ({ world }) => {
      world.pods.fault = (name) => (name === 'cri.pullImage' && pulls++ === 0 ? { error: 'no route' } : undefined);
    });
    const chain = chainTo(story, `pod/${podName}`);
    const timers = chain.links.filter(({ kind }) => kind === 'timer');
    expect(new Set(timers.map(({ actor }) => actor))).toEqual(new Set([`pod/${podName}-node-1/app`]));
    expect(timers.reduce((sum, { tookMs }) => sum + tookMs, 0)).toBeGreaterThan(9_900);
    expect(chain.waitingMs).toBeGreaterThan(9_900);
  });

  it('says why there is no goal', () => {
    const { story } = boot({ answers: { 'host.hostname': 'hangs' } });
    expect(goalOf(story, undefined)).toBe('healthz never answered in this journal');
    expect(goalOf(story, 'pod/x')).toBe('there is no pod x in start i1; it has none (JOURNAL@NUMBER is another start)');
  });
});

it('follows a long chain of causes', () => {
  const moments = new Map(
    Array.from({ length: 300_000 }, (_, n) => [n, { n, cause: n === 0 ? undefined : n - 1 } as Moment]),
  );
  const began = process.cpuUsage();
  const path = causesOf({ moments } as unknown as Story, 299_999);
  const spentMs = process.cpuUsage(began).user / 1_000;
  expect(path.every(({ n }, at) => n === at)).toBe(true);
  expect(path).toHaveLength(moments.size);
  expect(spentMs).toBeLessThan(3_000);
});

describe('why', () => {
  it('startup is complete', () => {
    const report = whyOf(boot(), 'startup');
    expect(report.summary).toMatch(/^Starting is complete: /);
    expect(report.waits.filter(({ kind }) => kind === 'operation')).toEqual([]);
  });

  it('startup waits: for what, since when, and with which operation open', () => {
    const { node } = boot({ answers: { 'host.hostname': 'hangs' } });
    const asked = node.effects('host.hostname')[0]!;
    const entered = storyOf(node.records).moments.get(asked.n)!.t;
    const story = storyOf(node.records, entered + 45_000);
    const report = whyOf({ node, story }, 'startup');
    expect(report.summary).toBe('run.hostname has waited 45.0 s for the host name');
    expect(report.waits).toContainEqual(expect.objectContaining({ kind: 'operation', what: 'host.hostname' }));
    expect(report.decisions.at(-1)).toMatchObject({
      actor: 'kubelet',
      because: ['watchdog.ready', 'watchdog: host.watchdogSettings answered'],
    });
  });

  it('startup failed: in which phase, and why', () => {
    const report = whyOf(boot({ answers: { 'host.machineInfo': fail('no /proc') } }), 'startup');
    expect(report.summary).toBe('Starting failed in run.cadvisor: failed to run Kubelet: no /proc');
  });

  it('names what failed, at which endpoint, how often, also where starting went on', () => {
    const answers = { 'server.healthz': fail('EADDRINUSE') };
    const report = whyOf(boot({ answers }), 'startup');
    const healthz = report.failed.find(({ actor }) => actor === 'healthz')!;
    expect(healthz).toMatchObject({ operation: 'server.healthz', target: '127.0.0.1:10248', error: 'EADDRINUSE' });
    expect(healthz.times).toBeGreaterThan(1);
    expect(describeWhy(report)).toMatch(
      /Failed, and not resolved since\n(.*\n)*.*healthz +server\.healthz 127\.0\.0\.1:10248/,
    );
  });

  it('names a stream whose last report is a failure, until it reports something else', () => {
    const taken = (node: BootNode) => {
      const at = { type: 'healthz.failed', message: 'address already in use' };
      for (const _ of [1, 2]) node.world.emit('server.healthz', at);
    };
    const booted = boot();
    taken(booted.node.run(1));
    const failing = { node: booted.node.run(1_000), story: storyOf(booted.node.records) };
    expect(whyOf(failing, 'startup').failed).toMatchObject([
      { actor: 'healthz', operation: 'server.healthz', error: 'address already in use', times: 2 },
    ]);
    booted.node.world.emit('server.healthz', { type: 'healthz.listening', address: '127.0.0.1', port: 10_248 });
    const working = { node: booted.node.run(1_000), story: storyOf(booted.node.records) };
    expect(whyOf(working, 'startup').failed).toEqual([]);
  });

  it('an operation that was answered at last has not failed', () => {
    const flaky = (_input: never, nth: number) => (nth === 0 ? fail('not yet') : ('stream' as const));
    expect(whyOf(boot({ answers: { 'server.healthz': flaky } }), 'startup').failed).toEqual([]);
  });

  it('names the endpoint that is waited for', () => {
    const { waits } = whyOf(boot({ answers: { 'runtime.connect': 'hangs' } }), 'startup');
    expect(waits).toContainEqual(
      expect.objectContaining({ what: 'runtime.connect', target: expect.stringMatching(/^unix:/) as string }),
    );
  });

  it('a pod gets its state from before the end of the agent, without what ended with the agent', () => {
    const booted = boot();
    booted.node.kernel.dispatch('kubelet', { type: 'signal.received', signal: 'SIGTERM' }, 'process');
    booted.node.run(1_000);
    const report = whyOf({ ...booted, story: storyOf(booted.node.records) }, `pod/${podName}`);
    const text = describeWhy(report);
    expect(report.endedMs).toBeGreaterThanOrEqual(60_000);
    expect(text).toMatch(/^default\/\S+ is Running\nThe agent ended at \+1 min/);
    expect(text).not.toContain('(stopped)');
    const shown = text.slice(text.indexOf('Then\n'), text.indexOf('\nOpen\n'));
    expect(shown).toContain('alive.life.sync.active');
    expect(shown).not.toContain('alive.resizing.idle');
  });

  it('a pod waits for the pull of its image', () => {
    const booted = boot({}, ({ world }) => {
      world.pods.fault = (name) => (name === 'cri.pullImage' ? { hangs: true } : undefined);
    });
    const report = whyOf(booted, `pod/${podName}`);
    expect(report.summary).toContain('is Pending');
    expect(report.waits).toContainEqual(expect.objectContaining({ kind: 'operation', what: 'cri.pullImage' }));
    expect(describeWhy(report)).toContain('cri.pullImage');
  });

  it('a container waits for the end of its back-off, and when that is due', () => {
    const booted = boot({}, ({ world }) => {
      world.pods.runtime.programs.set('app', [{ runsMs: 100, exitCode: 3 }]);
    });
    const report = whyOf(booted, `pod/${podName}/app`);
    expect(report.summary).toMatch(/app waits: CrashLoopBackOff: back-off .*; it last ended with 3 \(Error\)$/);
    const [timer] = report.waits.filter(({ kind }) => kind === 'timer');
    expect(timer!.dueMs).toBeGreaterThan(booted.story.ended - booted.story.started);
    expect(report.decisions.length).toBeGreaterThan(0);
  });

  it('of an image that cannot be pulled has its state, the timer of its next try and what failed', () => {
    const booted = boot({}, ({ world }) => {
      world.pods.fault = (name) => (name === 'cri.pullImage' ? { error: 'no route to the registry' } : undefined);
    });
    const report = whyOf(booted, 'image/app:1');
    expect(report).toMatchObject({ subject: 'image app:1', summary: expect.stringMatching(/^app:1: /) as string });
    expect(report.states.every(({ actor }) => actor === 'images/image-app:1')).toBe(true);
    expect(JSON.stringify(report.failed)).toContain('no route to the registry');
  });

  it.each(['actor/kubelet/runtimeService', 'actor/runtimeService'])('of %s is about that actor alone', (subject) => {
    const report = whyOf(boot(), subject);
    expect(report.summary).toMatch(/: connected\.watching for /);
    expect(new Set(report.decisions.map(({ actor }) => actor))).toEqual(new Set(['runtimeService']));
  });

  it('does not guess timers that it cannot know', () => {
    const report = why(boot().story, 'startup', undefined) as Why;
    expect(report).toMatchObject({ timersKnown: false });
    expect(describeWhy(report)).toContain('timers are not known');
  });

  it.each([
    ['pod/nope', 'there is no pod nope in start i1'],
    [`pod/${podName}/nope`, 'has no container nope in this journal'],
    ['actor/nope', 'this journal has no actor nope'],
    ['image/nope', 'this journal has no image nope'],
  ])('%s is no subject', (subject, message) => {
    expect(why(boot().story, subject, [])).toContain(message);
  });
});

it.each([
  ['startup', true],
  ['pod/web', true],
  ['pod/web/app', true],
  ['image/registry/app:1', true],
  ['actor/pods', true],
  ['actor/', false],
  ['pods', false],
  ['pod/', false],
  ['pod/a/b/c', false],
])('why knows of %j that it can be asked: %s', (subject, can) => {
  expect(SUBJECT.test(subject)).toBe(can);
});

describe('diff', () => {
  it('of a boot with itself is none', () => {
    const report = compare(boot().story, boot().story);
    expect(report).toMatchObject({ same: true, firstDifference: null });
    expect(describeComparison(report)).toContain('Every actor decided the same.');
  });

  it('tells slower from different', () => {
    const slow = boot({}, ({ world }) => {
      world.pods.fault = (name) => (name === 'cri.pullImage' ? { extraMs: 3_000 } : undefined);
    });
    const report = compare(boot().story, slow.story);
    expect(report.firstDifference).toBeNull();
    const { goal, aMs, bMs, parts } = report.time!;
    expect([goal, bMs - aMs]).toEqual([`pod default/${podName}-node-1 is Ready`, 3_000]);
    expect(parts[0]).toMatchObject({ what: 'cri.pullImage answered', changeMs: 3_000 });
    expect(parts.reduce((sum, { changeMs }) => sum + changeMs, 0)).toBe(3_000);
    expect(describeComparison(report)).toMatch(/is Ready after .*: where \+3\.00 s came from\n.*\n.*cri\.pullImage/);
  });

  it('says how a start failed that failed, and what the other had of it', () => {
    const report = compare(boot().story, boot({ answers: { 'host.machineInfo': fail('no /proc') } }).story);
    expect(report.aFailure).toBeUndefined();
    expect(report.bFailure).toMatchObject({
      message: expect.stringContaining('no /proc') as string,
      operation: { name: 'host.machineInfo', error: 'no /proc' },
      there: { end: 'done', tookMs: 2 },
    });
    expect(describeComparison(report)).toMatch(
      /b failed at .*no \/proc.*\n {2}before it host\.machineInfo .* failed: no \/proc\n {2}in a it was answered after 2 ms/,
    );
  });

  it('names phases of one start only, and the decision where they part', () => {
    const argv = ['--pod-manifest-path=/etc/kubernetes/manifests', '--lock-file=/run/kubelet.lock'];
    const report = compare(boot().story, boot({ argv, answers: { 'host.machineInfo': fail('no /proc') } }).story);
    expect(report.same).toBe(false);
    expect(report.phases).toContainEqual({ name: 'run.lockFile', bMs: 2, onlyIn: 'b' });
    expect(report.phases).toContainEqual(expect.objectContaining({ name: 'run.containerManager', onlyIn: 'a' }));
    const names = report.phases.map(({ name }) => name);
    expect(names.indexOf('run.lockFile')).toBe(names.indexOf('run.watchdog') + 1);
    expect(report.firstDifference).toMatchObject({
      actor: 'kubelet',
      a: 'alive.startup.run.hostname',
      b: 'alive.startup.run.lockFile',
    });
    expect(describeComparison(report)).toMatch(/- +2 ms +\+2 ms +run.lockFile +only in b/);
  });
});

describe('a journal that goes on and on', () => {
  it('is read until the start is told, and says the same of it', () => {
    const { node, story } = boot();
    const start = readUntil(prolonged(node.records, 50_000, 10), node.records[0]!, isStartReported);
    expect(start.endsBefore).toBeLessThan(3_000);
    expect(describeStartupTime(startupTime(start))).toBe(describeStartupTime(startupTime(story)));
  });

  it('is read for ten minutes more where no pod ran', () => {
    const { node } = boot({}, ({ world }) => world.pods.setManifests([]));
    const quiet = readUntil(prolonged(node.records, 50_000, 100), node.records[0]!, isStartReported);
    expect(quiet.ended - quiet.started).toBeGreaterThan(600_000);
    expect(quiet.endsBefore).toBeLessThan(10_000);
  });

  it('is compared as far as it is read, and the report says how far', () => {
    const { node } = boot();
    const part = (): Story =>
      readUntil(prolonged(node.records, 50_000, 10), node.records[0]!, ({ moments }) => moments.size > 2_000);
    const report = compare(part(), part());
    expect(report).toMatchObject({ same: true, firstDifference: null });
    expect(report.endsBefore).toBeLessThan(4_000);
    expect(describeComparison(report)).toContain(`Up to record ${report.endsBefore} every actor decided the same;`);
  });

  it('says where it was read from, when it begins earlier', () => {
    const report = { ...whyOf(boot(), 'startup'), begins: 7, isPart: true };
    expect(describeWhy(report)).toContain('Read from record 7 on, times count from there; --whole reads all.');
  });
});

describe('a journal whose first segments are gone', () => {
  it('is told from its checkpoint on', () => {
    const { node } = boot();
    const state = node.kernel.checkpoint();
    const before = node.records.length;
    node.world.pods.runtime.programs.set('app', [{}]);
    node.run(200_000);
    const checkpoint = { after: state.n - 1, state };
    const story = new Story({
      header: node.records[0] as HeaderRecord,
      checkpoint,
      records: node.records.slice(before),
      checkpointAfter: none,
    });
    expect(story.begins).toBe(before);
    expect(startIsGone(story)).toBe(`incarnation i1 began before record ${before}, the first one that is left`);
    expect(describeWhy(whyOf({ node, story }, 'startup'))).toContain(`The journal begins with record ${before};`);
    expect(story.actors.get('kubelet')).toMatchObject({ status: 'active' });
    expect(whyOf({ node, story }, 'startup').summary).toMatch(/^Starting is complete/);
    expect([...story.actors.keys()].some((address) => address.includes('/pod-u1/container-'))).toBe(true);
  });
});

describe('a journal with a gap', () => {
  /** A pull hangs when the gap begins, and is cancelled within the gap, unless it continues to hang. */
  function behindGap(hangs: boolean): Booted {
    const { node } = boot({}, ({ world }) => {
      world.pods.fault = (name) => (name === 'cri.pullImage' ? { hangs: true } : undefined);
    });
    const before = node.records.length;
    if (!hangs) node.world.pods.setManifests([]);
    node.run(60_000);
    const taken = node.kernel.checkpoint();
    const state = hangs ? taken : { ...taken, effects: taken.effects.filter(({ name }) => name !== 'cri.pullImage') };
    const gap: JournalRecord = { n: before, k: 'gap', upto: state.n - 1, why: 'ENOSPC' };
    const after = node.records.length;
    node.run(60_000);
    const records = [...node.records.slice(0, before), gap, ...node.records.slice(after)];
    const stored = (n: number) => (n === state.n - 1 ? { after: n, state } : undefined);
    return { node, story: storyOf(records, 0, stored) };
  }
  const isPull = ({ what }: { readonly what: string }): boolean => what === 'cri.pullImage';
  const isOpen = ({ name, end }: Operation): boolean => name === 'cri.pullImage' && end === undefined;

  it('tells what is open where it goes on, not what was open before', () => {
    const open = (story: Story) => [...story.operations.values()].filter(isOpen).length;
    expect(open(behindGap(true).story)).toBe(1);
    const { story } = behindGap(false);
    expect(open(story)).toBe(0);
    expect([...story.actors.keys()].filter((address) => address.includes('pod-u1'))).toEqual([]);
  });

  it('says so', () => {
    const booted = behindGap(true);
    const [{ n, upto }] = booted.story.gaps as [GapRecord];
    const sentence = `Records ${n} to ${upto} were not kept: journaling was suspended (ENOSPC).\n`;
    const report = whyOf(booted, `pod/${podName}`);
    expect(report.waits.filter(isPull)).toHaveLength(1);
    expect(describeWhy(report)).toContain(sentence);
    const chain = criticalChain(booted.story, goalOf(booted.story, 'healthz') as Goal);
    expect(describeChain(chain)).toContain(sentence);
  });

  it('that nothing ended says that nothing follows', () => {
    const { node } = boot();
    const records: JournalRecord[] = [...node.records, { n: node.records.length, k: 'gap', why: 'EIO' }];
    const text = describeWhy(whyOf({ node, story: storyOf(records) }, 'startup'));
    expect(text).toContain(`Nothing from record ${node.records.length} on was kept: journaling was suspended (EIO).`);
  });
});

describe('a journal of another build', () => {
  it('has phases that this build does not know, and they are told by their names', () => {
    const records = boot().node.records.map((record) =>
      record.k === 'state'
        ? (JSON.parse(JSON.stringify(record).replace('"hostname"', '"hostName"')) as KernelRecord)
        : record,
    );
    const phases = startupTime(storyOf(records)).phases;
    expect(phases.find(({ name }) => name === 'run.hostName')).toMatchObject({ tookMs: 2 });
  });
});

it('aligns columns, numbers to the right, and leaves no space at the end', () => {
  const rows = [
    ['1', 'a'],
    ['100', ''],
  ];
  expect(table([{ title: 'N', align: 'right' }, { title: 'X' }], rows)).toBe('  N  X\n  1  a\n100\n');
});
