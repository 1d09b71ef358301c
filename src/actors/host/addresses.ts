/**
 * `host.addresses`, the addresses of this machine, of a name, and of the interfaces of the default routes; and
 * `host.watchAddresses`, which follows them.
 *
 * Upstream: k8s.io/apimachinery/pkg/util/net/interface.go.
 */
import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations, MachineAddresses } from '../../machines/model/operations/host.ts';
import { watchChanges } from '../pause.ts';

type Operations = typeof hostOperations;

type HostAddress = MachineAddresses['addresses'][number];
interface OwnAddress extends HostAddress {
  readonly isInternal: boolean;
}

/** If no resolver answers in this time, the node starts without the address. */
const LOOK_UP_MAX_MS = 1_000;

export function addressPorts(root: string) {
  const addresses: Port<Operations['host.addresses']> = async ({ input }) => {
    const [found, machine] = await Promise.all([inTime(addressesOf(input.lookUp)), addressesHere(root)]);
    return { ...machine, found: found ?? [] };
  };
  const watch: Port<Operations['host.watchAddresses']> = async (call) => {
    const { lookUp, periodMs } = call.input;
    let found: readonly string[] = [];
    // One question at a time: each occupies a thread until the resolver answers or gives up.
    let open: Promise<Found> | null = null;
    const ask = async () => {
      open ??= addressesOf(lookUp).finally(() => {
        open = null;
      });
      found = (await inTime(open)) ?? found;
      const { local, ...rest } = await addressesHere(root);
      // Each pod's end of its network has a link-local address, which no node can have.
      return { ...rest, local: local.filter(isGlobal), found };
    };
    const emit = (machine: MachineAddresses) => call.emit({ type: 'addresses.seen', machine });
    return watchChanges({ ask, periodMs, signal: call.signal, emit });
  };
  return { 'host.addresses': addresses, 'host.watchAddresses': watch };
}

async function addressesHere(root: string): Promise<Omit<Required<MachineAddresses>, 'found'>> {
  const own = ownAddresses();
  return {
    addresses: own
      .filter(({ isInternal, address }) => !isInternal && isGlobal(address))
      .map(({ isInternal: _kind, ...address }) => address),
    local: own.map(({ address }) => address),
    routed: routedAddresses(own, await defaultInterfaces(root)),
  };
}

/** kube-proxy's interface in IPVS mode holds the address of every Service, which no node can have. */
const INTERFACE_OF_SERVICES = 'kube-ipvs0';

function ownAddresses(): OwnAddress[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    name === INTERFACE_OF_SERVICES
      ? []
      : addresses.map(({ address, family, internal }) => ({ interface: name, address, family, isInternal: internal })),
  );
}

/** Whether other machines can use the address: it is no link-local address. */
const isGlobal = (address: string): boolean => !address.startsWith('169.254.') && !/^fe[89ab]/i.test(address);

type Found = readonly string[] | null;

/** `null` if the name cannot be looked up. */
const addressesOf = (name: string | undefined): Promise<Found> =>
  name === undefined
    ? Promise.resolve([])
    : lookup(name, { all: true }).then(
        (entries) => entries.map(({ address }) => address),
        () => null,
      );

/** `null` if there is no answer in time. */
async function inTime(answer: Promise<Found>): Promise<Found> {
  const patience = new AbortController();
  const late = sleep(LOOK_UP_MAX_MS, null, { ref: false, signal: patience.signal }).catch(() => null);
  const found = await Promise.race([answer, late]);
  patience.abort();
  return found;
}

interface DefaultInterfaces {
  readonly IPv4: readonly string[];
  readonly IPv6: readonly string[];
}

/** The interfaces of the default routes, in the order of the kernel's tables. */
async function defaultInterfaces(root: string): Promise<DefaultInterfaces> {
  const [v4, v6] = await Promise.all([
    rowsOf(`${root}/proc/net/route`, (line) => /^[^\t]+\t00000000\t/.test(line)),
    rowsOf(`${root}/proc/net/ipv6_route`, (line) => line.startsWith(`${NO_ADDRESS} 00 `)),
  ]);
  return {
    IPv4: v4.flatMap(([name]) => name ?? []),
    IPv6: v6.flatMap((row) => (row[4] === NO_ADDRESS ? [] : (row[9] ?? []))),
  };
}

/** `::` in the table of IPv6. */
const NO_ADDRESS = '0'.repeat(32);

/** The fields of the default routes: other lines are not split, for the table of a router can have a million. */
async function rowsOf(path: string, isDefaultRoute: (line: string) => boolean): Promise<string[][]> {
  const table = await readFile(path, 'utf8').catch(() => '');
  return table
    .split('\n')
    .filter(isDefaultRoute)
    .map((line) => line.trim().split(/\s+/));
}

/** Of each family, the first address of an interface of a default route, otherwise of the loopback interface. */
function routedAddresses(own: readonly OwnAddress[], interfaces: DefaultInterfaces): string[] {
  return (['IPv4', 'IPv6'] as const).flatMap((family) => {
    const usable = own.filter((each) => each.family === family && isGlobal(each.address));
    const chosen = interfaces[family].flatMap((name) => [
      ...usable.filter((each) => each.interface === name),
      ...usable.filter(({ isInternal, address }) => isInternal && !/^(127\.|::1$)/.test(address)),
    ]);
    return chosen.slice(0, 1).map(({ address }) => address);
  });
}
