/** The columns of `statelet get pods` are those of kubectl's printer for the same pod. */
import { describe, expect, it } from 'vitest';
import type { LocalPod } from '../../../src/bin/local/node-client.ts';
import { columns, podRows } from '../../../src/bin/local/pod-table.ts';

const NOW_MS = Date.parse('2026-01-01T01:00:00Z');
const running = { running: { startedAt: '2026-01-01T00:00:00Z' } };
const ended = (exitCode: number) => ({ terminated: { exitCode, finishedAt: '2026-01-01T00:50:00Z' } });

interface Given {
  readonly name?: string;
  readonly ready?: boolean;
  readonly restartCount?: number;
  readonly state: object;
  readonly lastState?: object;
}

const statusOf = ({ name = 'c', ready = false, restartCount = 0, ...rest }: Given) => ({
  name,
  ready,
  restartCount,
  ...rest,
});

function pod(spec: object, status: object): LocalPod {
  return {
    metadata: { name: 'p', namespace: 'ns', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { containers: [{ name: 'c', image: 'i' }], ...spec },
    status: { phase: 'Pending', startTime: '2026-01-01T00:30:00Z', ...status },
  };
}

const rowOf = (given: LocalPod, wide = false): string =>
  podRows([given], { wide, allNamespaces: false, nowMs: NOW_MS })[1]!.slice(1).join(' ');

describe('a pod', () => {
  const init = { initContainers: [{ name: 'i', image: 'i' }] };
  const sidecar = { initContainers: [{ name: 's', image: 'i', restartPolicy: 'Always' }] };
  const initialized = { conditions: [{ type: 'Initialized', status: 'True' }] };

  it('is as old as its object, not as its start', () => {
    expect(rowOf(pod({}, {}))).toBe('0/1 Pending 0 60m');
  });

  it('that is being prepared counts restarts of what prepares it', () => {
    const failing = statusOf({ name: 'i', restartCount: 2, state: ended(1), lastState: ended(1) });
    expect(rowOf(pod(init, { initContainerStatuses: [failing] }))).toBe('0/1 Init:ExitCode:1 2 (10m ago) 60m');
  });

  it('that was prepared counts restarts of its containers alone', () => {
    const status = {
      phase: 'Running',
      initContainerStatuses: [statusOf({ name: 'i', restartCount: 3, state: ended(0), lastState: ended(1) })],
      containerStatuses: [statusOf({ ready: true, state: running })],
    };
    expect(rowOf(pod(init, status))).toBe('1/1 Running 0 60m');
  });

  it('has its sidecars among its containers, before they have a status, too', () => {
    expect(rowOf(pod(sidecar, {}))).toBe('0/2 Pending 0 60m');
    const status = {
      ...initialized,
      phase: 'Running',
      initContainerStatuses: [{ ...statusOf({ name: 's', ready: true, state: running }), started: true }],
      containerStatuses: [statusOf({ ready: true, state: running, restartCount: 1, lastState: ended(2) })],
    };
    expect(rowOf(pod(sidecar, status))).toBe('2/2 Running 1 (10m ago) 60m');
  });

  it('shows in its last columns what its readiness waits for', () => {
    const spec = { nodeName: 'n', readinessGates: [{ conditionType: 'a' }, { conditionType: 'b' }] };
    const status = { podIP: '192.0.2.1', conditions: [{ type: 'a', status: 'True' }] };
    expect(rowOf(pod(spec, status), true)).toBe('0/1 Pending 0 60m 192.0.2.1 n <none> 1/2');
  });
});

it('columns are three spaces apart, and nothing is at their end', () => {
  expect(
    columns([
      ['NAME', 'AGE'],
      ['a-longer-name', '1s'],
    ]),
  ).toBe('NAME            AGE\na-longer-name   1s\n');
});
