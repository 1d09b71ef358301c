/** The rules of probing as tables: see `prober-policy.ts`. */

import { describe, expect, it } from 'vitest';
import {
  activeKinds,
  firstDelay,
  firstVerdict,
  handlerOf,
  initialState,
} from '../../../../../src/machines/charts/pods/prober/prober-policy.ts';
import type { Container, Probe } from '../../../../../src/machines/model/api/pod.ts';
import type { ContainerFacts } from '../../../../../src/machines/model/status/runtime-facts.ts';
import { container, pod } from '../support.ts';

const EXEC: Probe = { exec: { command: ['x'] } };
const ALL: Container = container({ startupProbe: EXEC, readinessProbe: EXEC, livenessProbe: EXEC });
const state = { id: 'c1', started: true, ready: true, failed: false };

describe('which probes run', () => {
  it.each([
    ['before it has started', { ...state, started: false }, 'running', false, ['startup']],
    ['after that', state, 'running', false, ['readiness', 'liveness']],
    ['when a verdict has ended it', { ...state, failed: true }, 'running', false, ['readiness']],
    ['while it stops', state, 'stopping', false, ['readiness']],
    ['while its pod ends', state, 'running', true, ['readiness']],
    ['while its pod ends before it has started', { ...state, started: false }, 'running', true, []],
  ] as const)('%s', (_, known, phase, podEnds, expected) => {
    expect(activeKinds(ALL, known, phase, podEnds)).toEqual(expected);
  });

  it('is only what the container declares', () => {
    expect(activeKinds(container(), state, 'running', false)).toEqual([]);
    const unstarted = { ...state, started: false };
    expect(activeKinds(container({ livenessProbe: EXEC }), unstarted, 'running', false)).toEqual(['liveness']);
  });
});

describe('what is known before the first attempt', () => {
  const published = {
    ...pod({ containers: [ALL] }),
    status: {
      containerStatuses: [
        {
          ...container(),
          image: '',
          imageID: '',
          restartCount: 0,
          containerID: 'containerd://c1',
          ready: true,
          started: true,
        },
      ],
    },
  };
  it.each([
    ['nothing', undefined, pod(), 'c1', { started: false, ready: false }],
    [
      'what is remembered of the same instance',
      { id: 'c1', started: true, ready: false },
      published,
      'c1',
      { started: true, ready: false },
    ],
    [
      'not what is remembered of another one',
      { id: 'c0', started: true, ready: true },
      pod(),
      'c1',
      { started: false, ready: false },
    ],
    ['what was published of the same instance', undefined, published, 'c1', { started: true, ready: true }],
    ['not what was published of another one', undefined, published, 'c2', { started: false, ready: false }],
  ] as const)('is %s', (_, remembered, of, id, expected) => {
    expect(initialState(ALL, id, remembered, of)).toEqual({ id, failed: false, ...expected });
  });

  it.each([
    ['startup', state, null],
    ['readiness', state, 'success'],
    ['readiness', { ...state, ready: false }, 'failure'],
    ['liveness', { ...state, ready: false }, 'success'],
  ] as const)('makes %s begin with its verdict', (kind, known, expected) => {
    expect(firstVerdict(kind, known)).toBe(expected);
  });
});

describe('the first attempt', () => {
  const startedAt = (startedAtMs: number) => ({ startedAtMs }) as ContainerFacts;
  it.each<[string, Probe, number, number, number]>([
    ['comes at once', { periodSeconds: 10 }, 0, 0.9, 0],
    ['waits for the initial delay', { periodSeconds: 10, initialDelaySeconds: 5 }, 1_000, 0, 4_000],
    ['does not wait for a delay that is over', { periodSeconds: 10, initialDelaySeconds: 5 }, 60_000, 0, 0],
    ['is spread over a period where the agent found the instance', { periodSeconds: 10 }, 3_600_000, 0.5, 5_000],
    ['is spread over no more than its age', { periodSeconds: 60 }, 2_000, 0.5, 1_000],
  ])('%s', (_, probe, ageMs, chance, expected) => {
    expect(firstDelay(probe, startedAt(1_000_000), 1_000_000 + ageMs, chance)).toBe(expected);
  });

  it('survives a clock that went back', () => {
    expect(firstDelay({ periodSeconds: 10, initialDelaySeconds: 5 }, startedAt(9_000), 1_000, 0.5)).toBe(5_000);
  });
});

describe('what is asked', () => {
  const ports = [{ name: 'web', containerPort: 8080 }];
  const asked = (probe: Probe, more: Partial<Container> = {}, ip = '10.0.0.7') =>
    handlerOf(probe, container({ ports, ...more }), 'c1', ip);

  it.each<[string, Probe, string, string]>([
    ['the defaults', { httpGet: { port: 80 } }, '10.0.0.7', 'http://10.0.0.7:80/'],
    ['a named port', { httpGet: { port: 'web', path: '/x' } }, '10.0.0.7', 'http://10.0.0.7:8080/x'],
    ['a number as text', { httpGet: { port: '81' } }, '10.0.0.7', 'http://10.0.0.7:81/'],
    ['HTTPS', { httpGet: { port: 443, scheme: 'HTTPS' } }, '10.0.0.7', 'https://10.0.0.7:443/'],
    ['a host of its own', { httpGet: { port: 80, host: 'other' } }, '10.0.0.7', 'http://other:80/'],
    [
      'a path without a slash, with a query',
      { httpGet: { port: 80, path: 'a?b=c' } },
      'fd00::1',
      'http://[fd00::1]:80/a?b=c',
    ],
  ])('over HTTP: %s', (_, probe, ip, url) => {
    expect(asked(probe, {}, ip)).toMatchObject({ handler: { kind: 'httpGet', url } });
  });

  it.each<[string, Probe, object]>([
    ['TCP', { tcpSocket: { port: 'web' } }, { kind: 'tcpSocket', host: '10.0.0.7', port: 8080 }],
    ['TCP elsewhere', { tcpSocket: { port: 1, host: 'db' } }, { kind: 'tcpSocket', host: 'db', port: 1 }],
    ['gRPC', { grpc: { port: 9 } }, { kind: 'grpc', host: '10.0.0.7', port: 9, service: '' }],
    ['gRPC of a service', { grpc: { port: 9, service: 's' } }, { kind: 'grpc', service: 's' }],
    ['a command', { exec: { command: ['a', 'b'] } }, { kind: 'exec', containerId: 'c1', command: ['a', 'b'] }],
  ])('over %s', (_, probe, handler) => {
    expect(asked(probe)).toMatchObject({ handler });
  });

  it('has only the literal variables of the container', () => {
    const env = [
      { name: 'A', value: '1' },
      { name: 'A', value: '2' },
      { name: 'B', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
    ];
    expect(asked({ exec: { command: ['$(A)', '$(B)', '$(C)', '$$(A)'] } }, { env })).toMatchObject({
      handler: { command: ['2', '', '$(C)', '$(A)'] },
    });
  });

  it.each<[string, Probe, string]>([
    ['an unknown name of a port', { tcpSocket: { port: 'nope' } }, 'strconv.Atoi: parsing "nope": invalid syntax'],
    ['a port that is none', { httpGet: { port: '70000' } }, 'invalid port number: 70000'],
    ['no handler', {}, 'missing probe handler for container c'],
  ])('is refused: %s', (_, probe, error) => {
    expect(asked(probe)).toEqual({ error });
  });
});
