/** Which probes are counted, and for how long. */
import { expect, it } from 'vitest';
import { familiesOf } from '../../../../../src/actors/server/metrics/instruments.ts';
import { asked, recording, sent } from '../../metrics-recording.ts';

function probing() {
  const { recorder, contexts, turn } = recording();
  for (const uid of ['u1', 'u2']) contexts[`kubelet/pods/pod-${uid}`] = { uid, name: uid, namespace: 'default' };
  const address = (uid: string) => `kubelet/pods/pod-${uid}/prober-app-liveness/watch`;
  turn(0, asked(1, 'probe.watch', address('u1')), asked(2, 'probe.watch', address('u2')));
  /** By `pod result`, how often a probe was counted and how often measured. */
  const counted = async () => {
    const families = await familiesOf(recorder.probeRegistry);
    const samples = (name: string) => families.find((family) => family.name === name)?.samples ?? [];
    const attempts = samples('prober_probe_total').map(({ labels, value }) => [
      `${labels['pod']} ${labels['result']}`,
      value,
    ]);
    const measured = samples('prober_probe_duration_seconds')
      .filter(({ suffix }) => suffix === '_count')
      .map(({ labels, value }) => [labels['pod'], value]);
    return { attempts: Object.fromEntries(attempts), measured: Object.fromEntries(measured) };
  };
  return { recorder, turn, counted };
}

it('an attempt that failed is counted and not measured', async () => {
  const { recorder, counted } = probing();
  for (const result of ['success', 'failure', 'failure', 'unknown']) recorder.probed(1, result, 5);
  expect(await counted()).toEqual({
    attempts: { 'u1 successful': 1, 'u1 failed': 2 },
    measured: { u1: 1 },
  });
});

it.each([
  ['is gone', { type: 'status.removed', uid: 'u1' }],
  ['has ended', { type: 'status.changed', pod: { uid: 'u1' }, status: { phase: 'Succeeded' } }],
])('nothing is told of a pod that %s, and the others stay', async (_how, event) => {
  const { recorder, turn, counted } = probing();
  for (const request of [1, 2]) for (const result of ['success', 'failure']) recorder.probed(request, result, 5);
  turn(1, sent('kubelet/status', event));
  expect(await counted()).toEqual({ attempts: { 'u2 successful': 1, 'u2 failed': 1 }, measured: { u2: 1 } });
});
