/** Reports of failed calls about a container or a sandbox. */
import { afterEach, describe, expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import type { Fault } from '../../../../../src/simulation/world/pods-world.ts';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const EARLIER = nodeBefore('podLifeAsKubelet');
const POD = { uid: 'u1', containers: [{ name: 'app', image: 'app:1' }] };
const UNKNOWN = 'rpc error: code = Unknown desc =';

let node: PodsNode;

function booted(behavior = NEWEST_BEHAVIOR, lifecycle: object = {}): PodsNode {
  node = new PodsNode({ settings: { behavior } });
  node.world.runtime.images.set('app:1', image('app:1'));
  const containers = [{ name: 'app', image: 'app:1', lifecycle }];
  node.world.setManifests([manifest({ ...POD, containers })]);
  return node.boot();
}
const fail = (name: string, fault: Fault, times = 1): void => {
  let left = times;
  node.world.fault = (call) => (call === name && left-- > 0 ? fault : undefined);
};
const running = () => node.isReady('u1');
const gone = () => node.podState('u1') === undefined;
const eventsOf = (reason: string) => node.logs('Event occurred').filter((each) => each['reason'] === reason);
const messages = (reason: string) => eventsOf(reason).map(({ message }) => message);

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('the end of a pod', () => {
  const STUCK = { error: `${UNKNOWN} container "x" is stuck`, code: 'UNKNOWN' };
  const kill = (action: string, target: string): string =>
    `error killing pod: failed to "${action}" for "${target}" with ${action}Error: "${UNKNOWN} container \\"x\\" is stuck"`;

  it('is reported as failing for each container that does not stop, with growing pauses', () => {
    booted().until('Running', running);
    fail('cri.stopContainer', STUCK, 4);
    node.world.setManifests([]);
    node.run(1_600);
    expect(messages('FailedKillPod')).toEqual([kill('KillContainer', 'app'), kill('KillContainer', 'app')]);
    node.run(15_000);
    expect(messages('FailedKillPod')).toHaveLength(4);
    node.until('gone', gone, 20_000);
    expect(eventsOf('FailedKillPod')[0]).not.toHaveProperty('fieldPath');
    expect(messages('Killing')).toEqual(['Stopping container app']);
  });

  it('is reported as failing for a sandbox that does not stop', () => {
    booted().until('Running', running);
    fail('cri.stopPodSandbox', STUCK);
    node.world.setManifests([]);
    node.until('gone', gone);
    expect(messages('FailedKillPod')).toEqual([kill('KillPodSandbox', 'u1')]);
  });

  it('was reported only for sandboxes on an earlier node', () => {
    booted(EARLIER).until('Running', running);
    fail('cri.stopContainer', STUCK);
    node.world.setManifests([]);
    node.until('gone', gone);
    expect(messages('FailedKillPod')).toEqual([]);
    booted(EARLIER).until('Running', running);
    fail('cri.stopPodSandbox', STUCK);
    node.world.setManifests([]);
    node.until('gone', gone);
    expect(messages('FailedKillPod')).toEqual([`error killing pod: ${STUCK.error}`]);
  });
});

it.each([
  [NEWEST_BEHAVIOR, 0],
  [EARLIER, 1],
])('in behavior %d a replaced sandbox that does not stop is reported %d times', (behavior, times) => {
  booted(behavior).until('Running', running);
  fail('cri.stopPodSandbox', { error: 'busy', code: 'UNKNOWN' });
  node.world.runtime.stopSandbox([...node.world.runtime.sandboxes.keys()][0]!);
  node.until('Running in another one', () => node.world.runtime.sandboxes.size === 2 && running());
  expect(messages('FailedKillPod')).toHaveLength(times);
});

it.each([
  [NEWEST_BEHAVIOR, 'app'],
  [EARLIER, 'the id'],
])('in behavior %d the event of a failed start names the container by %s', (behavior, named) => {
  booted(behavior);
  let id = '';
  node.world.fault = (call, input) => {
    if (call !== 'cri.startContainer' || id !== '') return undefined;
    id = (input as { containerId: string }).containerId;
    return { error: `${UNKNOWN} failed to start task "${id}": busy`, code: 'UNKNOWN' };
  };
  node.until('the failure', () => messages('Failed').length > 0);
  const name = named === 'app' ? 'app' : id;
  expect(messages('Failed')).toEqual([`Error: failed to start task "${name}": busy`]);
  expect(node.status('u1')?.containerStatuses?.[0]?.state).toEqual({
    waiting: { reason: 'RunContainerError', message: `failed to start task "${id}": busy` },
  });
});

it('names the image in the event of its failed inspection', () => {
  booted(NEWEST_BEHAVIOR);
  fail('cri.imageStatus', { error: `${UNKNOWN} busy`, code: 'UNKNOWN' });
  node.until('Running', running, 20_000);
  expect(messages('InspectFailed')).toEqual([`Failed to inspect image "app:1": ${UNKNOWN} busy`]);
});

it.each([
  [NEWEST_BEHAVIOR, undefined],
  [EARLIER, 'spec.containers{app}'],
])('in behavior %d a hook that speaks no HTTPS is an event about the pod, or %s', (behavior, fieldPath) => {
  booted(behavior, { postStart: { httpGet: { scheme: 'HTTPS', port: 443, host: 'example.test' } } });
  node.world.answers.set('https://example.test:443/', { result: 'warning', output: '' });
  node.until('Running', running);
  expect(eventsOf('LifecycleHTTPFallback').map((each) => each['fieldPath'])).toEqual([fieldPath]);
});
