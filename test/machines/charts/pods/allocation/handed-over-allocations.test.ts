/** Pods that another kubelet admitted keep their granted resources: proves A6 of `allocation.ts`. */
import { describe, expect, it } from 'vitest';
import { allocationMachine } from '../../../../../src/machines/charts/pods/allocation/allocation.ts';
import { admissionRequest, allocationOf } from '../../../../../src/machines/model/allocation/request.ts';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { runUnder } from '../../../../support/answering-world.ts';
import { ADMISSION, apiPod, removePod, sendPods } from '../../../../support/counting-node.ts';
import { image, PodsNode } from '../../../../support/pods-node.ts';

/** By pod, the CPU that another kubelet granted. */
type Granted = Readonly<Record<string, string>>;

const stateAfterKubelet = (granted: Granted) => ({
  containers: {},
  probes: {},
  handedOver: Object.fromEntries(
    Object.entries(granted).map(([uid, cpu]) => [uid, { [uid]: { requests: { cpu } } }] as const),
  ),
});

const asking = (uid: string, cpu: string) =>
  apiPod(uid, { containers: [{ name: uid, image: 'app:1', resources: { requests: { cpu } } }] });

describe('on a node', () => {
  function bootAfterKubelet(granted: Granted): PodsNode {
    const node = new PodsNode({ settings: { admission: ADMISSION, makesPodCgroups: true } });
    node.world.runtime.images.set('app:1', image('app:1'));
    node.world.softState = stateAfterKubelet(granted);
    return node.boot().run(100);
  }

  it('a resize that the other kubelet did not grant waits until there is room', () => {
    const node = bootAfterKubelet({ grown: '500m', other: '1' });
    sendPods(node, 'ADD', asking('other', '1'), asking('grown', '1500m'));
    node.until('both run', () => ['grown', 'other'].every((uid) => node.phase(uid) === 'Running'));
    const isPending = () => node.status('grown')?.conditions?.some(({ type }) => type === 'PodResizePending') === true;
    expect(isPending()).toBe(true);
    removePod(node, 'other');
    node.until('the resize is granted', () => !isPending());
    expect(node.phase('grown')).toBe('Running');
    node.assertReplays();
  });

  it('what was handed over is kept until the pod is admitted', () => {
    const node = bootAfterKubelet({ here: '500m' });
    sendPods(node, 'ADD', asking('here', '500m'));
    node.until('it runs', () => node.phase('here') === 'Running');
    node.run(3_000);
    expect(node.world.softState.handedOver).toBeUndefined();
    node.assertReplays();
  });
});

describe('A6: a resize', () => {
  const settings = { behavior: NEWEST_BEHAVIOR, nodeName: 'node', admission: ADMISSION };

  function afterKubelet(granted: Granted) {
    const siblings = ['softState', 'pods', 'containerManager', 'deviceManager', 'eventRecorder', 'pod-grown'];
    const world = runUnder(allocationMachine, { settings }, {}, siblings);
    world.send({ type: 'softState.loaded', state: stateAfterKubelet(granted) });
    const ask = (uid: string, cpu: string) => {
      const [pod, before] = [asking(uid, cpu), asking(uid, granted[uid]!)];
      const [wanted, handedOver] = [pod, before].map((each) => ({
        request: admissionRequest(each, settings),
        allocation: allocationOf(each),
      }));
      world.send({ type: 'allocation.wanted', isAnew: false, ...wanted!, handedOver: handedOver! });
    };
    /** A pod sends its request again if other resources were granted. */
    const askToGrow = () => {
      ask('grown', '1500m');
      ask('grown', '1500m');
    };
    const context = () =>
      (world.kernel.snapshotOf('parent/subject') as { context: { grants: Grants; resizes: object } }).context;
    type Grants = Readonly<
      Record<string, { readonly demand: { readonly requests: Readonly<Record<string, string>> } }>
    >;
    const given = () =>
      Object.fromEntries(Object.entries(context().grants).map(([uid, { demand }]) => [uid, demand.requests['cpu']]));
    return { world, ask, askToGrow, given, waiting: () => Object.keys(context().resizes) };
  }

  it('takes nothing from a pod that has not asked yet', () => {
    const { world, ask, askToGrow, given, waiting } = afterKubelet({ grown: '500m', other: '1' });
    askToGrow();
    expect(given()).toEqual({ grown: '500' });
    ask('other', '1');
    expect(given()).toEqual({ grown: '500', other: '1000' });
    expect(waiting()).toEqual(['grown']);
    expect(world.divergence()).toBeNull();
  });

  it.each([
    ['its pods are known', { type: 'pods.known', uids: ['grown'] }],
    ['it is released', { type: 'allocation.released', uid: 'gone' }],
  ])('waits for a pod that is gone until %s', (_, event) => {
    const { world, askToGrow, given } = afterKubelet({ grown: '500m', gone: '1' });
    askToGrow();
    expect(given()).toEqual({ grown: '500' });
    world.send(event);
    expect(given()).toEqual({ grown: '1500' });
    expect(world.divergence()).toBeNull();
  });
});
