/**
 * Statistics of volumes by drivers, over real sockets: usage, condition, how often they are requested, and who waits.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { DriverStats, type StatsVolume } from '../../../src/actors/stats/driver-stats.ts';
import { CsiRoom } from '../csi/support.ts';

let room: CsiRoom;
let nowMs = 1_700_000_000_000;
let periodMs = 60_000;
const measured: string[] = [];

async function open(capabilities: readonly string[]): Promise<void> {
  room = await new CsiRoom().open(capabilities);
  writeFileSync(join(room.root, 'some'), 'data');
}
const volume = (more: Partial<StatsVolume> = {}): StatsVolume => ({
  uid: 'u1',
  name: 'data',
  claim: { namespace: 'ns', name: 'claim' },
  driver: 'csi.example.test',
  endpoint: room.endpoint,
  handle: 'h1',
  path: room.root,
  ...more,
});
const stats = (withHealth = false, waitMs = 10_000) =>
  new DriverStats({
    periodMs: () => periodMs,
    withHealth: () => withHealth,
    onVolume: (driver) => void measured.push(driver),
    now: () => nowMs,
    waitMs,
  });
const askedFor = () => room.driver.calls.map(({ request }) => request);
const only = async (reader: DriverStats, of = volume()) => [...(await reader.of([of])).values()][0];

afterEach(() => {
  periodMs = 60_000;
  measured.length = 0;
  return room.close();
});

describe('a volume of a driver that tells', () => {
  it('is as full as the driver says, for its claim', async () => {
    await open(['GET_VOLUME_STATS']);
    const reported = await only(stats());
    expect(reported).toMatchObject({ name: 'data', pvcRef: { name: 'claim', namespace: 'ns' } });
    expect(reported).not.toHaveProperty('volumeHealthStats');
    expect(reported!.capacityBytes).toBeGreaterThan(reported!.availableBytes!);
    expect(reported!.inodes).toBe(reported!.inodesFree! + reported!.inodesUsed!);
    expect(askedFor()).toEqual([{ volume_id: 'h1', volume_path: room.root, staging_target_path: '' }]);
    expect(measured).toEqual(['csi.example.test']);
  });

  it('is asked for once in a period, however often it is wanted', async () => {
    await open(['GET_VOLUME_STATS']);
    const reader = stats();
    const [one, two] = await Promise.all([only(reader), only(reader)]);
    expect([one, await only(reader)]).toEqual([two, one]);
    expect(askedFor()).toHaveLength(1);
    nowMs += 60_000;
    await only(reader);
    expect(askedFor()).toHaveLength(2);
  });

  it('is asked for when the clock was set back', async () => {
    await open(['GET_VOLUME_STATS']);
    const reader = stats();
    await only(reader);
    nowMs -= 3_600_000;
    await only(reader);
    expect(askedFor()).toHaveLength(2);
  });

  it('is not asked for where the period is nothing', async () => {
    await open(['GET_VOLUME_STATS']);
    periodMs = 0;
    expect(await only(stats())).toBeUndefined();
    expect(askedFor()).toEqual([]);
  });

  it.each([true, false])('is said to be unwell where that is asked for: %s', async (withHealth) => {
    await open(['GET_VOLUME_STATS', 'VOLUME_CONDITION']);
    room.driver.condition = { abnormal: true, message: 'the disk is gone' };
    const reported = await only(stats(withHealth), volume({ claim: null }));
    expect(reported).not.toHaveProperty('pvcRef');
    expect(reported!.volumeHealthStats).toEqual(withHealth ? { abnormal: true } : undefined);
  });
});

describe('a volume of which nothing is known', () => {
  it('is that of a driver that cannot tell: it is not asked', async () => {
    await open([]);
    expect(await only(stats())).toBeUndefined();
    expect(askedFor()).toEqual([]);
  });

  it('is that of a driver that fails, or is gone', async () => {
    await open(['GET_VOLUME_STATS']);
    room.driver.fault = () => ({ code: status.INTERNAL, details: 'no' });
    expect(await only(stats())).toBeUndefined();
    expect(await only(stats(), volume({ endpoint: join(room.root, 'gone.sock') }))).toBeUndefined();
  });

  it('does not wait for a driver that hangs, and delays no other volume', async () => {
    await open(['GET_VOLUME_STATS']);
    room.driver.fault = ({ request }) => (request.volume_id === 'stuck' ? { hangs: true } : undefined);
    const reader = stats(false, 2_000);
    const beganMs = performance.now();
    const all = [volume({ handle: 'stuck', name: 'stuck', path: join(room.root, 'some') }), volume()];
    expect([...(await reader.of(all)).values()].map(({ name }) => name)).toEqual(['data']);
    expect(performance.now() - beganMs).toBeLessThan(10_000);
    expect([...(await reader.of(all)).values()]).toHaveLength(1);
    expect(askedFor()).toHaveLength(2);
  });

  it('that answered before keeps its last answer while a new one is on its way', async () => {
    await open(['GET_VOLUME_STATS']);
    const reader = stats(false, 2_000);
    const before = await only(reader);
    room.driver.fault = () => ({ hangs: true });
    nowMs += 60_000;
    expect(await only(reader)).toEqual(before);
  });
});
