/**
 * The manager of dynamic resources in a world whose drivers are controlled by the test: proves Q1 to Q3 of
 * `dra-manager.ts`, E1 and E2 of the preparations, F1 of the releases, D1 of the drivers, L1 of the slices. For pods
 * with it see `pods/cluster/claims.test.ts`.
 */
import { expect, it } from 'vitest';
import { claimPreparationMachine } from '../../../../../src/machines/charts/node/dra/claim-preparation.ts';
import { claimReleaseMachine } from '../../../../../src/machines/charts/node/dra/claim-release.ts';
import { draDriverMachine } from '../../../../../src/machines/charts/node/dra/dra-driver.ts';
import { draManagerMachine } from '../../../../../src/machines/charts/node/dra/dra-manager.ts';
import { sliceRemovalMachine } from '../../../../../src/machines/charts/node/dra/slice-removal.ts';
import { claimStateText, readClaimState } from '../../../../../src/machines/model/dra/claims.ts';
import { type Answers, fail, ok, runUnder } from '../../../../support/answering-world.ts';

const DRIVER = 'gpu.example.test';
const claimObject = (name: string, uid = 'u1', driver = DRIVER) => ({
  metadata: { name, uid: `uid-${name}` },
  status: { reservedFor: [{ uid }], allocation: { devices: { results: [{ driver }] } } },
});
const DEVICE = { pool: 'p', device: 'd', share: null, requests: [], cdi: ['gpu.example.test/gpu=d'] };

function run(answers: Answers = {}, { inCluster = true } = {}) {
  const written: string[] = [];
  const asked: string[] = [];
  const world = runUnder(
    draManagerMachine,
    { rootDir: '/root', nodeName: 'node', inCluster },
    {
      'host.readCheckpoints': ok({ contents: [null] }),
      'host.writeCheckpoint': ({ content }: { content: string }) => {
        written.push(content);
        return ok(null);
      },
      'kube.get': ({ name }: { name: string }) => ok(claimObject(name)),
      'kube.deleteCollection': ok(null),
      'dra.follow': 'stream',
      'dra.prepare': ({ calls }: { calls: readonly { driver: string; claims: readonly { uid: string }[] }[] }) => {
        asked.push('prepare');
        const prepared = calls.map(({ driver, claims }) => ({
          driver,
          claims: Object.fromEntries(claims.map(({ uid }) => [uid, [DEVICE]])),
        }));
        return ok({ prepared });
      },
      'dra.unprepare': () => {
        asked.push('unprepare');
        return ok(null);
      },
      ...answers,
    },
    ['pods', 'pluginManager', 'pod-u1', 'pod-u2'],
  );
  const settle = (ms = 0) => world.time.advanceTo(world.time.now() + ms);
  const send = (event: { type: string; [key: string]: unknown }) => {
    world.send(event);
    settle(10);
  };
  const register = () =>
    send({ type: 'dra.registered', driver: DRIVER, endpoint: '/dra.sock', service: 'v1.DRAPlugin' });
  const want = (uid = 'u1', ...names: readonly string[]) =>
    send({
      type: 'claims.wanted',
      uid,
      namespace: 'default',
      pod: 'p',
      wanted: names.map((name) => ({ name, isOwned: false })),
    });
  const toPod = (uid = 'u1') =>
    world
      .records()
      .flatMap((each) => (each.k === 'message' && each.to === `parent/pod-${uid}` ? [each.event] : []))
      .filter(({ type }) => type.startsWith('claims.'));
  const state = () => {
    const found = readClaimState(written.at(-1) ?? '{}');
    return 'claims' in found ? found.claims.map(({ name, pods }) => [name, ...pods]) : found;
  };
  settle(10);
  return { ...world, settle, send, register, want, toPod, state, asked, written };
}

const PREPARED = { type: 'claims.prepared', uid: 'u1', claims: { mine: { [DRIVER]: [DEVICE] } } };

it('a pod hears of its claims when the checkpoint has them', () => {
  const world = run();
  world.register();
  world.want('u1', 'mine');
  expect(world.toPod()).toEqual([PREPARED]);
  expect(world.state()).toEqual([['mine', 'u1']]);
  expect(world.divergence()).toBeNull();
});

it('no driver is called before the checkpoint names the pod', () => {
  const world = run({ 'host.writeCheckpoint': fail('no space left on device') });
  world.register();
  world.want('u1', 'mine');
  const error =
    'prepare dynamic resources: checkpoint ResourceClaim cache: could not save checkpoint dra_manager_state: ' +
    'no space left on device';
  expect([world.asked, world.toPod()]).toEqual([[], [{ type: 'claims.failed', uid: 'u1', error }]]);
});

it('a checkpoint that could not be written is written later', () => {
  const written: string[] = [];
  const world = run({
    'host.writeCheckpoint': ({ content }: { content: string }) => {
      written.push(content);
      return written.length === 3 ? fail('EIO') : ok(null);
    },
  });
  world.register();
  world.want('u1', 'mine');
  expect(world.toPod()).toMatchObject([{ type: 'claims.failed' }]);
  world.settle(10_000);
  world.want('u1', 'mine');
  expect(world.toPod().at(-1)).toEqual(PREPARED);
});

it('a claim of another uid under the same name is refused until the old one is gone', () => {
  const old = { uid: 'old', name: 'mine', namespace: 'default', pods: ['u9'], drivers: { [DRIVER]: [] } };
  const world = run({ 'host.readCheckpoints': ok({ contents: [claimStateText([old])] }) });
  world.register();
  world.want('u1', 'mine');
  const error =
    'old ResourceClaim with same name mine and different UID old still exists (previous pod force-deleted?!)';
  expect(world.toPod()).toEqual([{ type: 'claims.failed', uid: 'u1', error: `prepare dynamic resources: ${error}` }]);
  world.send({ type: 'pods.known', uids: ['u1'] });
  world.settle(10);
  world.want('u1', 'mine');
  expect(world.toPod().at(-1)).toEqual(PREPARED);
});

it('a claim that is being taken back is not given at once to another pod', () => {
  const world = run({
    'dra.unprepare': 'stream',
    'kube.get': ({ name }: { name: string }) => ok({ ...claimObject(name), status: both() }),
  });
  world.register();
  world.want('u1', 'mine');
  world.send({ type: 'claims.released', uid: 'u1' });
  world.want('u2', 'mine');
  const error = 'prepare dynamic resources: ResourceClaim mine is being unprepared for the pod that had it before';
  expect(world.toPod('u2')).toEqual([{ type: 'claims.failed', uid: 'u2', error }]);
});

const both = () => ({ ...claimObject('mine').status, reservedFor: [{ uid: 'u1' }, { uid: 'u2' }] });

it('a driver that hangs holds up no other pod', () => {
  const world = run({
    'kube.get': ({ name }: { name: string }) =>
      ok(name === 'slow' ? claimObject('slow', 'u1') : claimObject(name, 'u2', 'other.example.test')),
    'dra.prepare': ({ calls }: { calls: readonly { driver: string }[] }) =>
      calls[0]?.driver === DRIVER ? 'stream' : ok({ prepared: [] }),
  });
  world.register();
  world.send({ type: 'dra.registered', driver: 'other.example.test', endpoint: '/o.sock', service: 'v1.DRAPlugin' });
  world.want('u1', 'slow');
  world.want('u2', 'quick');
  expect(world.toPod('u1')).toEqual([]);
  expect(world.toPod('u2')).toMatchObject([{ type: 'claims.prepared' }]);
});

it('a pod that ends while its claims are prepared has them taken back', () => {
  const world = run({ 'dra.prepare': 'stream' });
  world.register();
  world.want('u1', 'mine');
  world.send({ type: 'claims.released', uid: 'u1' });
  world.settle(10);
  expect([world.asked, world.toPod(), world.state()]).toEqual([
    ['unprepare'],
    [{ type: 'claims.unprepared', uid: 'u1' }],
    [],
  ]);
});

it('a driver that does not take a claim back is asked again when the pod asks again', () => {
  let refuses = true;
  const world = run({ 'dra.unprepare': () => (refuses ? fail('busy') : ok(null)) });
  world.register();
  world.want('u1', 'mine');
  world.send({ type: 'claims.released', uid: 'u1' });
  world.settle(10);
  expect(world.toPod().at(-1)).toEqual({
    type: 'claims.stillPrepared',
    uid: 'u1',
    error: 'unprepare dynamic resources: busy',
  });
  refuses = false;
  world.send({ type: 'claims.released', uid: 'u1' });
  world.settle(10);
  expect([world.toPod().at(-1)?.type, world.state()]).toEqual(['claims.unprepared', []]);
});

it('claims of a pod that is over are taken back each minute until that succeeds', () => {
  let refuses = true;
  const world = run({ 'dra.unprepare': () => (refuses ? fail('busy') : ok(null)) });
  world.register();
  world.want('u1', 'mine');
  world.send({ type: 'claims.abandoned', uid: 'u1' });
  world.send({ type: 'pods.known', uids: ['u1'] });
  world.settle(50_000);
  expect(world.state()).toEqual([['mine', 'u1']]);
  refuses = false;
  world.settle(60_000);
  expect([world.state(), world.toPod()]).toEqual([[], [PREPARED]]);
});

it('says to a pod that asks what is prepared, and to all that it has started', () => {
  const known = { uid: 'c', name: 'mine', namespace: 'default', pods: ['u1'], drivers: { [DRIVER]: [DEVICE] } };
  const world = run({ 'host.readCheckpoints': ok({ contents: [claimStateText([known])] }) });
  const toPods = world.sent().filter(({ to }) => to === 'parent/pods');
  expect(toPods.map(({ type }) => type)).toEqual(expect.arrayContaining(['claims.started', 'pods.wanted']));
  world.send({ type: 'claims.asked', uid: 'u1' });
  world.settle(10);
  const claims = { mine: { [DRIVER]: [DEVICE] } };
  expect(world.toPod()).toEqual([{ type: 'claims.known', uid: 'u1', claims, health: {} }]);
});

it('a checkpoint that cannot be read ends the node, in upstream’s words', () => {
  const world = run({ 'host.readCheckpoints': ok({ contents: ['{"Data":"x","Checksum":1}'] }) });
  const failed = world.records().flatMap((each) => (each.k === 'message' && each.to === 'parent' ? [each.event] : []));
  expect(failed).toContainEqual({
    type: 'draManager.failed',
    message:
      'failed to run Kubelet: create ResourceClaim cache: GetOrCreate() on checkpoint state: ' +
      'failed to get checkpoint dra_manager_state: checkpoint is corrupted',
  });
});

it('a driver that withdraws is not called any more; with another registration of it is', () => {
  const world = run();
  world.register();
  world.send({ type: 'dra.registered', driver: DRIVER, endpoint: '/new.sock', service: 'v1beta1.DRAPlugin' });
  world.send({ type: 'dra.withdrawn', driver: DRIVER, endpoint: '/new.sock' });
  world.want('u1', 'mine');
  expect(world.toPod()).toEqual([PREPARED]);
  world.send({ type: 'dra.withdrawn', driver: DRIVER, endpoint: '/dra.sock' });
  world.want('u2', 'mine');
  expect(world.toPod('u2')).toMatchObject([{ type: 'claims.failed' }]);
});

it('a driver or a claim may have a name that every object has', () => {
  const odd = run({ 'kube.get': ({ name }: { name: string }) => ok(claimObject(name, 'u1', 'constructor')) });
  odd.want('u1', 'constructor');
  const error = 'prepare dynamic resources: DRA driver constructor is not registered';
  expect(odd.toPod()).toEqual([{ type: 'claims.failed', uid: 'u1', error }]);
  odd.send({ type: 'dra.registered', driver: 'constructor', endpoint: '/c.sock', service: 'v1.DRAPlugin' });
  odd.want('u1', 'constructor');
  expect(odd.toPod().at(-1)).toEqual({
    type: 'claims.prepared',
    uid: 'u1',
    claims: { constructor: { constructor: [DEVICE] } },
  });
});

it('standalone nothing is asked of a cluster', () => {
  const world = run({}, { inCluster: false });
  world.register();
  world.settle(60_000);
  expect(world.asked).toEqual([]);
  expect(world.records().filter((each) => each.k === 'effect' && each.name.startsWith('kube.'))).toEqual([]);
});

it('slices are deleted until the server has done it; a server without them has none', () => {
  let refusals = 3;
  const world = runUnder(
    sliceRemovalMachine,
    { nodeName: 'node', driver: DRIVER },
    { 'kube.deleteCollection': () => (refusals-- > 0 ? fail('unavailable') : fail('not found', 'NotFound')) },
    [],
  );
  world.time.advanceTo(world.time.now() + 1_000 + 2_000 + 4_000 + 10);
  const effects = world.records().flatMap((each) => (each.k === 'effect' ? [each.input] : []));
  expect(effects).toHaveLength(4);
  expect(effects[0]).toMatchObject({ fieldSelector: `spec.driver=${DRIVER},spec.nodeName=node` });
});

it('of a watch that ended nothing is known, and it begins again', () => {
  const world = runUnder(
    draDriverMachine,
    { id: 'd', driver: DRIVER, endpoint: '/dra.sock', service: 'v1.DRAPlugin' as const },
    { 'dra.follow': fail('gone') },
    [],
  );
  world.time.advanceTo(world.time.now() + 5_100);
  const follows = world.records().filter((each) => each.k === 'effect');
  const reports = world.records().flatMap((each) => (each.k === 'message' && each.to === 'parent' ? [each.event] : []));
  expect(follows).toHaveLength(2);
  expect(reports).toContainEqual({
    type: 'dra.reported',
    id: 'd',
    item: { type: 'dra.connected', isConnected: false },
  });
});

it('a preparation ends with the first problem, and a release with the answer of its drivers', () => {
  const input = { uid: 'u1', namespace: 'default', pod: 'p' };
  const wanted = ['one', 'two'].map((name) => ({ name, isOwned: false }));
  const preparing = runUnder(claimPreparationMachine, { ...input, wanted }, { 'kube.get': fail('no route') }, []);
  preparing.time.advanceTo(preparing.time.now() + 10);
  expect(preparing.records().filter((each) => each.k === 'effect')).toHaveLength(1);
  const releasing = runUnder(claimReleaseMachine, { uid: 'u1', calls: [] }, { 'dra.unprepare': fail('busy') }, []);
  releasing.time.advanceTo(releasing.time.now() + 10);
  const outputs = [preparing, releasing].flatMap((world) =>
    world
      .records()
      .flatMap((each) => (each.k === 'message' && each.event.type === 'xstate.done.actor.subject' ? [each.event] : [])),
  );
  expect(outputs.map((event) => 'output' in event && event.output)).toEqual([
    { uid: 'u1', error: 'fetch ResourceClaim one: no route', prepared: [] },
    { uid: 'u1', error: 'busy' },
  ]);
});
