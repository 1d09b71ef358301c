/** The machine's own addresses: what a node reports when no `--node-ip` was given. */
import { networkInterfaces } from 'node:os';

export interface HostAddress {
  readonly interface: string;
  readonly address: string;
  readonly family: 'IPv4' | 'IPv6';
}

/** Addresses that another machine could use: not loopback, not link-local; in the order of the interfaces. */
export function hostAddresses(): HostAddress[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? [])
      .filter(({ internal, address }) => !internal && !address.startsWith('169.254.') && !/^fe[89ab]/i.test(address))
      .map(({ address, family }) => ({ interface: name, address, family })),
  );
}
