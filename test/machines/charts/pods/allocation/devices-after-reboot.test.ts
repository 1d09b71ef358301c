/** The devices of a pod that starts again, on a machine whose plugins have not registered yet. */
import { afterEach, describe, expect, it } from 'vitest';
import type { Grant } from '../../../../../src/machines/model/operations/grants.ts';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { ADMISSION, bootCountingNode } from '../../../../support/counting-node.ts';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const GPU = 'example.com/gpu';
const RESPONSE = { envs: {}, mounts: [], devices: [], annotations: {}, cdiDevices: [] };
let node: PodsNode;

type Runtime = PodsNode['world']['runtime'];
const stopAll = (runtime: Runtime): void => [...runtime.sandboxes.keys()].forEach((id) => runtime.stopSandbox(id));
const removeAll = (runtime: Runtime): void => [...runtime.sandboxes.keys()].forEach((id) => runtime.removeSandbox(id));
const leaveAll = (): void => {};

/** A pod runs with a device; then agent and runtime end, and the next agent of `behavior` starts. */
function startAgain(change: (runtime: Runtime) => void, behavior: number): void {
  node = bootCountingNode({ behavior });
  node.world.setManifests([manifest({ uid: 'u1', name: 'user' })]);
  node.until('Running', () => node.phase('u1') === 'Running');
  node.run(5_000);
  const { grants } = node.world.softState as { grants: Record<string, Grant> };
  const devices = { app: { [GPU]: { nodes: { '-1': ['a'] }, response: RESPONSE } } };
  Object.assign(node.world.softState, { grants: { ...grants, u1: { ...grants['u1'], devices } } });
  change(node.world.runtime);
  node = node.restart(0, { admission: ADMISSION, makesPodCgroups: true, behavior });
  node.run(60_000);
}

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('a pod whose device no plugin offers any more', () => {
  const message =
    `Pod was rejected: Allocate failed due to no healthy devices present; ` +
    `cannot allocate unhealthy devices ${GPU}, which is unexpected`;
  const rejected = { phase: 'Failed', reason: 'UnexpectedAdmissionError', message };
  it.each<[string, (runtime: Runtime) => void, object]>([
    ['is rejected when the machine was restarted', stopAll, rejected],
    ['is rejected when the runtime has forgotten it', removeAll, rejected],
    ['runs on when only the agent was restarted', leaveAll, { phase: 'Running' }],
  ])('%s', (_what, change, status) => {
    startAgain(change, NEWEST_BEHAVIOR);
    expect(node.status('u1')).toMatchObject(status);
  });

  it('was started on a node of before, with the device of then', () => {
    expect(() => startAgain(stopAll, nodeBefore('specsAsKubelet'))).toThrow('devices.preStartContainers');
  });
});
