/**
 * The number of a driver's volumes that fit on this node: when `csiVolumes` calls the driver, and which pods it
 * rejects.
 */
import { afterEach, expect, it } from 'vitest';
import { csiNode, DRIVER, type Options, volumeOf } from './support.ts';

type Node = ReturnType<typeof csiNode>;
let node: Node;
const boot = (options: Options = {}): Node => {
  node = csiNode(options);
  return node;
};
const NAME = `kubernetes.io/csi/${DRIVER}^h1`;
const toManager = () =>
  node
    .sent()
    .filter(({ to }) => to === 'parent/pluginManager')
    .slice(1)
    .map((reported) => ({ ...reported, to: undefined }));
const followed = (periodMs: number) => ({ type: 'csi.limitsFollowed', name: DRIVER, periodMs });
const changeDriver = (change: string, spec: object) => {
  const object = { metadata: { name: DRIVER, resourceVersion: '2' }, spec };
  node.emit('kube.watch', { type: 'watch.changed', change, object });
  node.advance(0);
};

afterEach(() => expect(node.divergence()).toBeNull());

it('a driver is asked as often as its CSIDriver says, as long as it listens', () => {
  boot({ spec: { nodeAllocatableUpdatePeriodSeconds: 10 } });
  expect(toManager()).toEqual([followed(10_000)]);
  changeDriver('MODIFIED', { nodeAllocatableUpdatePeriodSeconds: 60 });
  changeDriver('MODIFIED', { nodeAllocatableUpdatePeriodSeconds: 60, attachRequired: false });
  expect(toManager()).toEqual([followed(10_000), followed(60_000)]);
  node.send({ type: 'csi.driverGone', name: DRIVER });
  expect(toManager().slice(2)).toEqual([followed(0)]);
  node.listen();
  changeDriver('DELETED', {});
  expect(toManager().slice(3)).toEqual([followed(60_000), followed(0)]);
});

it('a driver that does not want it is not asked, and without one its limit is not read', () => {
  boot({ spec: {} });
  expect(toManager()).toEqual([]);
  boot({ spec: { nodeAllocatableUpdatePeriodSeconds: 10 }, isListening: false });
  expect(node.askedFor('kube.list')).toEqual([]);
});

const attachError = (errorCode?: number) => ({
  metadata: { name: 'a' },
  status: { attached: false, attachError: { message: 'too many', ...(errorCode ? { errorCode } : {}) } },
});
const wantWhileFull = (spec: object, attachment: object, options: Options = {}) => {
  boot({ spec, ...options });
  node.knobs.attachment = attachment;
  node.want('u1', volumeOf());
  node.send({ type: 'node.volumes', inUse: [NAME], attached: [] });
};
const killed = () => node.toPods().filter(({ type }) => type === 'pods.kill');

it('a pod whose volume finds no room here is rejected when it has waited for long', () => {
  wantWhileFull({ nodeAllocatableUpdatePeriodSeconds: 10 }, attachError(8));
  expect(killed()).toEqual([]);
  node.send({ type: 'csi.overdue', uid: 'u1' });
  const message =
    'Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data], ' +
    'unattached volumes=[data], failed to process volumes=[]: context deadline exceeded';
  expect(killed()).toEqual([
    {
      type: 'pods.kill',
      uid: 'u1',
      graceSeconds: null,
      verdict: {
        reason: 'VolumeAttachmentLimitExceeded',
        message: `Pod was rejected: ${message}`,
        published: 'always',
      },
    },
  ]);
  expect(node.events().at(-1)).toBe(message);
  expect(toManager().at(-1)).toEqual({ type: 'csi.limitReached', name: DRIVER });
});

it('a node of 0.2.0 rejects it without the names of volumes', () => {
  wantWhileFull({ nodeAllocatableUpdatePeriodSeconds: 10 }, attachError(8), { behavior: 2 });
  node.send({ type: 'csi.overdue', uid: 'u1' });
  expect(node.events().at(-1)).toBe('Node has reached its volume attachment limit, rejecting pod');
});

it.each([
  ['whose driver does not say how often it is asked', {}, attachError(8)],
  ['that fails for another reason', { nodeAllocatableUpdatePeriodSeconds: 10 }, attachError(13)],
  ['that fails for no known reason', { nodeAllocatableUpdatePeriodSeconds: 10 }, attachError()],
])('a pod with a volume %s goes on waiting', (_, spec, attachment) => {
  wantWhileFull(spec, attachment);
  node.send({ type: 'csi.overdue', uid: 'u1' });
  expect(killed()).toEqual([]);
  expect(node.logged().at(-1)).toBe('Error syncing pod, skipping');
});

it('a pod whose volume found room meanwhile goes on waiting', () => {
  wantWhileFull({ nodeAllocatableUpdatePeriodSeconds: 10 }, attachError(8));
  node.knobs.fault = (name) => (name === 'csi.publish' ? 'hang' : undefined);
  node.knobs.attachment = { metadata: { name: 'a' }, status: { attached: true } };
  node.send({ type: 'node.volumes', inUse: [NAME], attached: [NAME] });
  expect(node.disk.calls).toEqual(['stage h1']);
  node.send({ type: 'csi.overdue', uid: 'u1' });
  expect(killed()).toEqual([]);
});
