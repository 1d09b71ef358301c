/** Messages to a service manager that does not read, on a real datagram socket. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemCalls } from '../../../src/actors/host/kernel/syscall.ts';
import { notifyPort } from '../../../src/actors/host/notify.ts';
import { datagramReceiver } from '../../support/host-datagram.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

it('waits until the manager reads, holds up nothing else meanwhile, and is not lost', async () => {
  const address = join(await temporaryFolder(), 'notify');
  const manager = datagramReceiver(address);
  const system = systemCalls()!;
  const isFull = () => {
    try {
      system.sendDatagram(address, Buffer.from('WATCHDOG=1'));
      return false;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      return true;
    }
  };
  let before = 0;
  while (!isFull()) before++;
  const notified = perform(notifyPort({ NOTIFY_SOCKET: address }, system), { state: 'READY=1' });
  await expect(Promise.race([notified, new Promise((resolve) => setTimeout(resolve, 200, 'waiting'))])).resolves.toBe(
    'waiting',
  );
  for (let i = 0; i < before; i++) expect(await manager.next()).toBe('WATCHDOG=1');
  expect(await manager.next()).toBe('READY=1');
  await notified;
});
