/** Termination messages of containers: when a log replaces them, and their maximum length in a status. */
import { describe, expect, it } from 'vitest';
import { podStatus } from '../../../../src/machines/model/status/pod-status.ts';
import { factsOf } from '../../../../src/machines/model/status/runtime-facts.ts';
import { settings } from '../../../support/pods-node.ts';
import { container, instance, nodeBefore, pod, runtime } from '../../charts/pods/support.ts';

const EARLIER = nodeBefore('podLifeAsKubelet');
const NAMES = ['a', 'b', 'c', 'd'];
const ended = (name: string, message: string) =>
  instance({ id: name, metadata: { name, attempt: 0 }, state: 'CONTAINER_EXITED', exit_code: 1, message });

const messages = (message: string, names: readonly string[]) =>
  podStatus({
    pod: pod({ restartPolicy: 'Never', containers: names.map((name) => container({ name })) }),
    runtime: runtime(names.map((name) => ended(name, message))),
    node: settings,
    nowMs: 0,
    previous: null,
  }).containerStatuses?.map(({ state }) => state?.terminated?.message);

describe('the termination messages of a pod', () => {
  it('have equal parts of 12 KiB, from their beginning', () => {
    const long = 'x'.repeat(4_096);
    expect(messages(long, NAMES.slice(0, 3))).toEqual([long, long, long]);
    expect(messages(`start${long}`, NAMES)).toEqual(NAMES.map(() => `start${'x'.repeat(3_067)}`));
  });

  it('leave a part to each ephemeral container, too', () => {
    const ephemeral = NAMES.map((name) => ({ ...container({ name: `debug-${name}` }), targetContainerName: '' }));
    const of = (behavior: number) =>
      podStatus({
        pod: pod({ containers: [container({ name: 'a' })], ephemeralContainers: ephemeral }),
        runtime: runtime([ended('a', 'x'.repeat(4_096))]),
        node: { ...settings, behavior },
        nowMs: 0,
        previous: null,
      }).containerStatuses?.[0]?.state?.terminated?.message;
    expect(of(settings.behavior)).toBe('x'.repeat(2_457));
    expect(of(EARLIER)).toBe('x'.repeat(4_096));
  });

  it('leave a mark for each byte of a character that is cut', () => {
    const [first] = messages(`ab${'€'.repeat(1_100)}`, NAMES) ?? [];
    expect(first).toBe(`ab${'€'.repeat(1_023)}\ufffd`);
  });

  it('of the instance before the last one stay when the runtime does not tell them', () => {
    const previous = podStatus({
      pod: pod({ containers: [container({ name: 'a' })] }),
      runtime: runtime([ended('a', 'first')]),
      node: settings,
      nowMs: 0,
      previous: null,
    });
    const second = instance({ id: 'a2', metadata: { name: 'a', attempt: 1 }, created_at: '2' });
    const next = podStatus({
      pod: pod({ containers: [container({ name: 'a' })] }),
      runtime: runtime([second, ended('a', '')]),
      node: settings,
      nowMs: 0,
      previous,
    });
    expect(next.containerStatuses?.[0]?.lastState?.terminated?.message).toBe('first');
  });
});

describe('the log of a container', () => {
  const annotations = { 'io.kubernetes.container.terminationMessagePolicy': 'FallbackToLogsOnError' };
  const logOf = (fields: Parameters<typeof instance>[0]) =>
    factsOf(runtime([instance({ annotations, log_path: '/log', ...fields })]), 'c')?.messageLog;

  it('stands in for last words only when the container failed', () => {
    expect(logOf({ state: 'CONTAINER_EXITED', exit_code: 1 })).toBe('/log');
    expect(logOf({ state: 'CONTAINER_EXITED', exit_code: 0 })).toBe('');
    expect(logOf({ state: 'CONTAINER_EXITED', exit_code: 128, reason: 'ContainerCannotRun' })).toBe('');
  });
});
