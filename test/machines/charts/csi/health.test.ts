/**
 * The condition of volumes by `csiHealthMachine`: when `csiVolumes` calls a driver, and the events for the user of the
 * pod.
 */
import { afterEach, expect, it } from 'vitest';
import { volumeHealthInput } from '../../../../src/machines/startup/subsystem-inputs.ts';
import { csiNode, ROOT, volumeOf } from './support.ts';

let node: ReturnType<typeof csiNode>;
const send = (abnormal: boolean, message: string) => {
  node.emit('csi.followHealth', { type: 'csi.health', abnormal, message });
  node.advance(0);
};
const cancelled = () => node.records().filter(({ k }) => k === 'cancel').length;

afterEach(() => expect(node.divergence()).toBeNull());

it('a driver is asked from when the volume is published to its end, and its user hears what is wrong', () => {
  node = csiNode({ healthPeriodMs: 60_000 });
  node.want('u1', volumeOf());
  const path = `${ROOT}/pods/u1/volumes/kubernetes.io~csi/pv1/mount`;
  expect(node.askedFor('csi.followHealth')).toEqual([{ endpoint: '/csi.sock', handle: 'h1', path, periodMs: 60_000 }]);
  send(false, 'fine');
  expect(node.events()).toEqual([]);
  send(true, 'the disk is lost');
  expect(node.events()).toEqual(['Volume data: the disk is lost']);
  node.want('u1', volumeOf());
  expect(node.askedFor('csi.followHealth')).toHaveLength(1);
  const before = cancelled();
  node.release('u1');
  expect(cancelled()).toBe(before + 1);
});

it('without a receiver, no driver is called', () => {
  node = csiNode();
  node.want('u1', volumeOf());
  expect(node.askedFor('csi.followHealth')).toEqual([]);
});

it.each([
  [{}, '1m0s', {}],
  [{ CSIVolumeHealth: true }, '1m0s', { healthPeriodMs: 60_000 }],
  [{ CSIVolumeHealth: true }, '-1s', {}],
])('is asked under its gate, as often as how full volumes are: %o %s', (featureGates, volumeStatsAggPeriod, input) => {
  expect(volumeHealthInput({ featureGates, volumeStatsAggPeriod })).toEqual(input);
});
