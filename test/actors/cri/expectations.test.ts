import { expect, it } from 'vitest';
import {
  type Expectations,
  expecting,
  type Outcome,
  unmetExpectations,
} from '../../../src/actors/cri/calls-in-progress.ts';
import { podRuntimeStatus } from '../../../src/actors/cri/relist.ts';
import type { ContainerStatus, PodSandboxStatus } from '../../../src/machines/model/api/cri.ts';
import type { PodRuntimeStatus } from '../../../src/machines/model/operations/cri.ts';

const status = (sandbox: PodSandboxStatus['state'] | null, container: ContainerStatus['state'] | null) => {
  const common = { created_at: '1', labels: {}, annotations: {} };
  const sandboxes = sandbox === null ? [] : [{ ...common, id: 's', state: sandbox, runtime_handler: '' }];
  const rest = {
    started_at: '0',
    finished_at: '0',
    exit_code: 0,
    image_ref: '',
    image_id: '',
    reason: '',
    message: '',
  };
  const last = { mounts: [], log_path: '', stop_signal: 'RUNTIME_DEFAULT' } as const;
  const containers = container === null ? [] : [{ ...common, ...rest, ...last, id: 'c', state: container }];
  return podRuntimeStatus('a', sandboxes, containers, 0);
};
const promised = (id: string, outcome: Outcome) => expecting(new Map(), id, outcome);

it.each<[string, Outcome, string, PodRuntimeStatus, boolean]>([
  ['c', 'exited', 'still runs', status('SANDBOX_READY', 'CONTAINER_RUNNING'), false],
  ['c', 'exited', 'has exited', status('SANDBOX_READY', 'CONTAINER_EXITED'), true],
  ['c', 'exited', 'is gone', status('SANDBOX_READY', null), true],
  ['s', 'exited', 'is ready', status('SANDBOX_READY', null), false],
  ['s', 'exited', 'is not ready', status('SANDBOX_NOTREADY', null), true],
  ['c', 'running', 'is only created', status('SANDBOX_READY', 'CONTAINER_CREATED'), false],
  ['c', 'running', 'runs', status('SANDBOX_READY', 'CONTAINER_RUNNING'), true],
  ['c', 'running', 'has exited already', status('SANDBOX_READY', 'CONTAINER_EXITED'), true],
  ['c', 'running', 'is not there yet', status('SANDBOX_READY', null), false],
  ['s', 'running', 'is there', status('SANDBOX_READY', null), true],
  ['c', 'gone', 'is there', status(null, 'CONTAINER_EXITED'), false],
  ['c', 'gone', 'is gone', status('SANDBOX_READY', null), true],
])('%s should be %s and %s', (id, outcome, _what, seen, met) => {
  expect(unmetExpectations(promised(id, outcome), seen).open.size).toBe(met ? 0 : 1);
});

it('`changed` promises nothing', () => {
  expect(promised('c', 'changed').size).toBe(0);
});

it('a new promise about the same id replaces the old one', () => {
  const both = expecting(promised('c', 'running'), 'c', 'exited');
  expect(both.get('c')).toEqual({ outcome: 'exited', checks: 0 });
});

it('waits double, up to a second, and end after half a minute', () => {
  const waits: (number | null)[] = [];
  let open: Expectations = promised('c', 'exited');
  do {
    const result = unmetExpectations(open, status('SANDBOX_READY', 'CONTAINER_RUNNING'));
    open = result.open;
    waits.push(result.waitMs);
  } while (open.size > 0);
  const seconds = Array.from({ length: 30 }, () => 1_000);
  expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, ...seconds, null]);
});
