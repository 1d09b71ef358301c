/** `csi.followHealth` against a driver on a real socket. */
import { setTimeout } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import { openStream } from '../../support/host-ports.ts';
import { CsiRoom } from './support.ts';

let room: CsiRoom;
afterEach(() => room.close());

async function follow(...capabilities: string[]) {
  room = await new CsiRoom().open(capabilities);
  const { endpoint, root: path } = room;
  return openStream(room.ports['csi.followHealth'], { endpoint, handle: 'h1', path, periodMs: 20 });
}

it('speaks when a volume is not what it was, and not while its driver fails', async () => {
  const stream = await follow('GET_VOLUME_STATS', 'VOLUME_CONDITION');
  room.driver.condition = { abnormal: false, message: 'fine' };
  expect(await stream.until(() => true)).toEqual({ type: 'csi.health', abnormal: false, message: 'fine' });
  room.driver.fault = () => ({ code: status.INTERNAL, details: 'no' });
  await setTimeout(200);
  expect(stream.items).toHaveLength(1);
  room.driver.fault = () => undefined;
  room.driver.condition = { abnormal: true, message: 'the disk is lost' };
  await stream.until(({ abnormal }) => abnormal);
  await setTimeout(200);
  expect(stream.items).toHaveLength(2);
});

it('does not ask a driver that cannot tell', async () => {
  const stream = await follow('GET_VOLUME_STATS');
  await setTimeout(200);
  expect([stream.items, room.methods()]).toEqual([[], []]);
});
