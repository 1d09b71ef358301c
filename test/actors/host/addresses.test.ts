/** The addresses that a node could have, by the routes of a machine that is described by files. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { addressPorts } from '../../../src/actors/host/addresses.ts';
import type { MachineAddresses } from '../../../src/machines/model/operations/host.ts';

const HEADER = 'Iface\tDestination\tGateway \tFlags\n';

function machineWith(routes: string): string {
  const root = mkdtempSync(join(tmpdir(), 'routes-'));
  mkdirSync(join(root, 'proc/net'), { recursive: true });
  writeFileSync(join(root, 'proc/net/route'), `${HEADER}${routes}`);
  return root;
}

function addressesWith(routes: string, lookUp?: string): Promise<MachineAddresses> {
  const call = { input: lookUp === undefined ? {} : { lookUp } };
  return addressPorts(machineWith(routes))['host.addresses'](call as never);
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

it('takes no other route for the default route', async () => {
  const names = Object.keys(networkInterfaces());
  const others = names.map((name) => `${name}\t000200C0\t00000000\t0001\n`).join('');
  expect((await addressesWith(others)).routed).toEqual([]);
});

/** An interface with an address that other machines can reach. */
const [interfaceName] = Object.entries(networkInterfaces()).flatMap(([each, all]) =>
  all?.some(({ family, internal }) => family === 'IPv4' && !internal) ? [each] : [],
);

it.skipIf(interfaceName === undefined)('tells of each change of the routes, and of no link-local address', async () => {
  const root = machineWith('');
  const seen: MachineAddresses[] = [];
  const stop = new AbortController();
  const emit = ({ machine }: { machine: MachineAddresses }) => seen.push(machine);
  const call = { input: { lookUp: 'localhost', periodMs: 20 }, signal: stop.signal, emit };
  const end = addressPorts(root)['host.watchAddresses'](call as never);
  await vi.waitFor(() => expect(seen).toHaveLength(1));
  writeFileSync(join(root, 'proc/net/route'), `${HEADER}${interfaceName}\t00000000\t010200C0\t0003\n`);
  await vi.waitFor(() => expect(seen).toHaveLength(2));
  stop.abort();
  expect(await end).toBeNull();
  expect(seen.map(({ routed = [] }) => routed.length)).toEqual([0, 1]);
  expect(seen[0]?.found).toContain('127.0.0.1');
  expect(seen.flatMap(({ local = [] }) => local).filter((address) => address.startsWith('fe80'))).toEqual([]);
});
