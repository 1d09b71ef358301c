/** Which addresses a node could have, held against the routes of a machine that is described by files. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { addressPort } from '../../../src/actors/host/machine.ts';
import type { MachineAddresses } from '../../../src/machines/model/operations/host.ts';

const HEADER = 'Iface\tDestination\tGateway \tFlags\n';

function addressesWith(routes: string, lookUp?: string): Promise<MachineAddresses> {
  const root = mkdtempSync(join(tmpdir(), 'routes-'));
  mkdirSync(join(root, 'proc/net'), { recursive: true });
  writeFileSync(join(root, 'proc/net/route'), `${HEADER}${routes}`);
  const call = { input: lookUp === undefined ? {} : { lookUp } };
  return addressPort(root)(call as never);
}

it('tells all addresses, and those that other machines can reach', async () => {
  const { local, addresses, found } = await addressesWith('');
  expect(local).toContain('127.0.0.1');
  expect(addresses.map(({ address }) => address)).not.toContain('127.0.0.1');
  expect(found).toEqual([]);
});

it('looks a name up, and is content with none', async () => {
  expect((await addressesWith('', 'localhost')).found).toContain('127.0.0.1');
  expect((await addressesWith('', 'no-such-name.invalid')).found).toEqual([]);
});

it('tells the address of the interface of the default route', async () => {
  const own = Object.entries(networkInterfaces()).flatMap(([name, all]) => {
    const isUsable = (address: string) => !address.startsWith('169.254.');
    const first = all?.find((each) => each.family === 'IPv4' && !each.internal && isUsable(each.address));
    return first === undefined ? [] : [{ name, address: first.address }];
  });
  for (const { name, address } of own) {
    const { routed } = await addressesWith(`${name}\t00000000\t010200C0\t0003\n`);
    expect(routed).toEqual([address]);
  }
  expect((await addressesWith('lo\t0000007F\t00000000\t0001\n')).routed).toEqual([]);
});
