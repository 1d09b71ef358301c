/**
 * Ports and networks that no two tests share, in all processes of this machine.
 *
 * A process holds the first port of a block while it runs; it may use the other ports of that block.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Below the range that the kernel uses for connections, so that no connection takes one meanwhile. */
const [FIRST_PORT, LAST_PORT] = [20_000, 32_000];
/** More than a test uses before the first ones are bound or free again. */
const BLOCK = 100;
const BLOCKS = (LAST_PORT - FIRST_PORT) / BLOCK;

let block: Promise<number> | undefined;
let given = 0;

/** A loopback port without a listener, which no other test gets. */
export async function freePort(): Promise<number> {
  const first = await (block ??= ownBlock());
  for (let tried = 1; tried < BLOCK; tried++) {
    const port = first + 1 + (given++ % (BLOCK - 1));
    const held = await hold(port);
    if (held === null) continue;
    await new Promise((closed) => held.close(closed));
    return port;
  }
  throw new Error(`somebody listens on each of the ports ${first} to ${first + BLOCK - 1}`);
}

/** `10.<200 or more>.<any>.0/24`, in no network of this machine. */
export async function freeSubnet(): Promise<string> {
  const number = (await freePort()) - FIRST_PORT;
  const prefix = `10.${200 + Math.floor(number / 256)}.${number % 256}.`;
  return isRouted(prefix) ? freeSubnet() : `${prefix}0/24`;
}

/** The kernel's routes, because Node does not list interfaces that are down, such as the bridge of a killed test. */
const isRouted = (prefix: string): boolean => readFileSync('/proc/net/fib_trie', 'utf8').includes(` ${prefix}`);

async function ownBlock(): Promise<number> {
  const start = Math.floor(Math.random() * BLOCKS);
  for (let tried = 0; tried < BLOCKS; tried++) {
    const first = FIRST_PORT + ((start + tried) % BLOCKS) * BLOCK;
    const held = await hold(first);
    held?.unref();
    if (held !== null) return first;
  }
  throw new Error(`each block of ports from ${FIRST_PORT} to ${LAST_PORT} is held by somebody`);
}

/** Listens on the port; null if another process does. */
async function hold(port: number) {
  const server = createServer();
  const isHeld = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
  });
  return isHeld ? server : null;
}

/** An address of this machine that is not a loopback address, if there is one. */
export function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
}
