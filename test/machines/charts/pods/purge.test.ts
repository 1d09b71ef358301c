/** What the collectors remove at once when the node has little disk space, and their answers. */
import { expect, it } from 'vitest';
import { imageGcMachine } from '../../../../src/machines/charts/images/image-gc.ts';
import { containerGcMachine } from '../../../../src/machines/charts/pods/container-gc.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';
import { settings } from '../../../support/pods-node.ts';

const PURGE = { type: 'garbage.purge' };
/** The number of a node without the behavior `removalsAsKubelet`. */
const WITH_EVENTS = 17;
const dead = (id: string, createdAt: string) => ({ id, name: 'c', restartCount: 0, createdAt });
const image = (id: string, more = {}) => ({
  id,
  repo_tags: [id],
  repo_digests: [],
  size: '1000',
  username: '',
  pinned: false,
  ...more,
});
const inputsOf = (run: ReturnType<typeof runUnder>, name: string) =>
  run.records().flatMap((record) => (record.k === 'effect' && record.name === name ? [record.input] : []));

it('of pods that are over every dead container goes, of the others what is beyond the limit', () => {
  const run = runUnder(containerGcMachine, settings, { 'cri.removeContainer': ok(null) }, ['pods', 'eviction']);
  const two = [dead('1', '1'), dead('2', '2')];
  run.send({ type: 'garbage.changed', uid: 'over', dead: two, sandboxes: [], over: true });
  const looping = [dead('3', '3'), dead('4', '4')];
  run.send({ type: 'garbage.changed', uid: 'looping', dead: looping, sandboxes: [], over: false });
  run.send(PURGE);
  run.time.advanceTo(run.time.now());
  const removed = inputsOf(run, 'cri.removeContainer').map((input) => (input as { containerId: string }).containerId);
  expect(removed.sort((a, b) => Number(a) - Number(b))).toEqual(['1', '2', '3']);
  expect(run.sent().at(-1)).toEqual({ to: 'parent/eviction', type: 'garbage.purged' });
  expect(run.divergence()).toBeNull();
});

it('within a minute all goes that an evicted pod left', () => {
  const answers = { 'cri.removeContainer': ok(null), 'logs.unlink': ok(null) };
  const run = runUnder(containerGcMachine, settings, answers, ['pods']);
  const garbage = { type: 'garbage.changed', sandboxes: [], over: true };
  run.send({ ...garbage, uid: 'evicted', dead: [dead('1', '1')], isEvicted: true });
  run.send({ ...garbage, uid: 'ended', dead: [dead('2', '2')] });
  run.time.advanceTo(run.time.now() + 61_000);
  expect(inputsOf(run, 'cri.removeContainer')).toEqual([{ containerId: '1' }]);
  expect(run.divergence()).toBeNull();
});

it('what is younger than the settings say does not count, and is checked again each minute', () => {
  const answers = { 'cri.removeContainer': ok(null), 'logs.unlink': ok(null) };
  const containerGc = { minAgeMs: 600_000, maxPerPodContainer: 0, maxContainers: -1 };
  const run = runUnder(containerGcMachine, { ...settings, containerGc }, answers, ['pods']);
  const ago = (ms: number): string => `${run.time.now() - ms}000000`;
  const removed = () =>
    inputsOf(run, 'cri.removeContainer').map((input) => (input as { containerId: string }).containerId);
  const ended = [
    { ...dead('old', ago(800_000)), name: 'a' },
    { ...dead('young', ago(500_000)), name: 'b' },
    { ...dead('new', ago(1)), name: 'c' },
  ];
  run.send({ type: 'garbage.changed', uid: 'ended', dead: ended, sandboxes: [], over: false });
  run.time.advanceTo(run.time.now() + 61_000);
  expect(removed()).toEqual(['old']);
  const left = ended.filter(({ id }) => id !== 'old');
  run.send({ type: 'garbage.changed', uid: 'ended', dead: left, sandboxes: [], over: false });
  run.time.advanceTo(run.time.now() + 180_000);
  expect(removed()).toEqual(['old', 'young']);
  expect(run.divergence()).toBeNull();
});

it('a collector that has nothing to do answers, too', () => {
  const run = runUnder(containerGcMachine, settings, {}, ['pods', 'eviction']);
  run.send(PURGE);
  expect(run.sent().at(-1)).toEqual({ to: 'parent/eviction', type: 'garbage.purged' });
});

it.each([
  ['as usual', settings],
  ['with its own collecting off', { ...settings, imageGc: { ...settings.imageGc, highThresholdPercent: 100 } }],
])('every image goes that nobody uses, however full the disk is (%s)', (_, input) => {
  const world = {
    'cri.listImages': ok({ images: [image('used'), image('idle'), image('pinned', { pinned: true })] }),
    'cri.removeImage': ok(null),
  };
  const run = runUnder(imageGcMachine, input, world, ['pods', 'eviction', 'eventRecorder']);
  run.send({ type: 'images.inUse', uid: 'u', refs: ['used'] });
  run.time.advanceTo(run.time.now() + input.imageGc.minAgeMs);
  run.send(PURGE);
  run.time.advanceTo(run.time.now());
  expect(inputsOf(run, 'cri.removeImage')).toEqual([{ image: 'idle' }]);
  expect(run.sent().filter(({ type }) => type === 'garbage.purged')).toEqual([
    { to: 'parent/eviction', type: 'garbage.purged' },
  ]);
  expect(run.divergence()).toBeNull();
});

it('a runtime that does not list its images is no reason not to answer', () => {
  const world = { 'cri.listImages': fail('away') };
  const run = runUnder(imageGcMachine, settings, world, ['pods', 'eviction', 'eventRecorder']);
  run.send(PURGE);
  run.time.advanceTo(run.time.now());
  expect(run.sent().at(-1)).toEqual({ to: 'parent/eviction', type: 'garbage.purged' });
});

it('an image is as old as its last container: one that was long in use is not too old when its pod ends', () => {
  const HOUR_MS = 3_600_000;
  const world = {
    'cri.imageFsInfo': ok({ mountpoint: '/images' }),
    'host.fileSystem': ok({ capacityBytes: '1000', availableBytes: '900' }),
    'cri.listImages': ok({
      images: [image('long'), image('digest', { repo_digests: ['a@sha256:1'] }), image('never')],
    }),
    'cri.removeImage': ok(null),
  };
  const imageGc = { ...settings.imageGc, maxAgeMs: HOUR_MS };
  const removed = (behavior: number) => {
    const run = runUnder(imageGcMachine, { ...settings, behavior, imageGc }, world, ['pods', 'eventRecorder']);
    run.send({ type: 'image.used', id: 'long' });
    run.send({ type: 'images.inUse', uid: 'u', refs: ['long', 'a@sha256:1'] });
    run.time.advanceTo(run.time.now() + HOUR_MS);
    run.send({ type: 'images.inUse', uid: 'u', refs: [] });
    run.time.advanceTo(run.time.now() + 10 * 60_000);
    const early = inputsOf(run, 'cri.removeImage').map((input) => (input as { image: string }).image);
    run.time.advanceTo(run.time.now() + HOUR_MS);
    expect(run.divergence()).toBeNull();
    return [early, inputsOf(run, 'cri.removeImage').length];
  };
  const [early, atLast] = removed(settings.behavior);
  expect(new Set(early as string[])).toEqual(new Set(['never']));
  expect(atLast).toBeGreaterThan((early as string[]).length);
  expect(new Set(removed(0)[0] as string[])).toEqual(new Set(['long', 'digest', 'never']));
});

it('of a container that dies again and again only what the settings keep is there, however young it is', () => {
  const answers = { 'cri.removeContainer': ok(null), 'logs.unlink': ok(null) };
  const containerGc = { minAgeMs: 600_000, maxPerPodContainer: 2, maxContainers: -1 };
  const run = runUnder(containerGcMachine, { ...settings, containerGc }, answers, ['pods']);
  const removed = () =>
    inputsOf(run, 'cri.removeContainer').map((input) => (input as { containerId: string }).containerId);
  const dies = (...ids: readonly number[]) => {
    const instances = ids.map((id) => dead(String(id), `${run.time.now() + id}000000`));
    run.send({ type: 'garbage.changed', uid: 'looping', dead: instances, sandboxes: [], over: false });
    run.time.advanceTo(run.time.now() + 1);
  };
  dies(1);
  dies(1, 2);
  expect(removed()).toEqual([]);
  dies(1, 2, 3);
  expect(removed()).toEqual(['1']);
  dies(2, 3, 4, 5);
  expect(removed().toSorted()).toEqual(['1', '2', '3']);
  expect(run.divergence()).toBeNull();
});

it('what cannot be removed when another one dies is tried again in the next round, not at once', () => {
  const answers = { 'cri.removeContainer': fail('busy'), 'logs.unlink': ok(null) };
  const run = runUnder(containerGcMachine, settings, answers, ['pods', 'eventRecorder']);
  const tries = () => inputsOf(run, 'cri.removeContainer').length;
  const looping = [dead('1', '1'), dead('2', '2')];
  run.send({ type: 'garbage.changed', uid: 'looping', dead: looping, sandboxes: [], over: false });
  run.time.advanceTo(run.time.now() + 30_000);
  expect(tries()).toBe(1);
  run.time.advanceTo(run.time.now() + 180_000);
  expect([tries() > 1, tries() < 6]).toEqual([true, true]);
});

it('a failed removal is in the log, and on an earlier node also an event', () => {
  const reports = (behavior: number) => {
    const answers = { 'cri.removeContainer': fail('busy'), 'logs.unlink': ok(null) };
    const run = runUnder(containerGcMachine, { ...settings, behavior }, answers, ['pods', 'eventRecorder']);
    const two = [dead('1', '1'), dead('2', '2')];
    run.send({ type: 'garbage.changed', uid: 'u', dead: two, sandboxes: [], over: false });
    run.time.advanceTo(run.time.now() + 1_000);
    const lines = run.records().filter((record) => record.k === 'log' && record.level === 'error').length;
    return [lines, run.sent().filter(({ type }) => type === 'event.recorded').length];
  };
  expect(reports(settings.behavior)).toEqual([1, 0]);
  expect(reports(WITH_EVENTS)).toEqual([1, 1]);
});
