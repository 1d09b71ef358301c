/**
 * Bytes and packets by network interface, from the view of a process.
 *
 * Format: proc_pid_net_dev(5). Interfaces whose traffic others count (`lo`, veth ends of containers) are left out, as
 * in cAdvisor.
 */
import { readlinkSync } from 'node:fs';
import { readText } from './kernel-text.ts';

export interface InterfaceUsage {
  readonly name: string;
  readonly rxBytes: bigint;
  readonly rxPackets: bigint;
  readonly rxErrors: bigint;
  readonly rxDropped: bigint;
  readonly txBytes: bigint;
  readonly txPackets: bigint;
  readonly txErrors: bigint;
  readonly txDropped: bigint;
}

const IGNORED = /^(lo|veth|docker)/;
/** Columns after the name: eight for received traffic, then eight for sent traffic. */
const COLUMNS = 16;

export function parseInterfaces(text: string): InterfaceUsage[] {
  return text.split('\n').flatMap((line) => {
    const [name = '', rest = ''] = line.split(':', 2).map((part) => part.trim());
    const columns = rest.split(/\s+/);
    if (name === '' || IGNORED.test(name) || columns.length < COLUMNS || !columns.every((each) => /^\d+$/.test(each)))
      return [];
    const [rxBytes = 0n, rxPackets = 0n, rxErrors = 0n, rxDropped = 0n, ...others] = columns.map(BigInt);
    const [txBytes = 0n, txPackets = 0n, txErrors = 0n, txDropped = 0n] = others.slice(COLUMNS / 2 - 4);
    return [{ name, rxBytes, rxPackets, rxErrors, rxDropped, txBytes, txPackets, txErrors, txDropped }];
  });
}

/** The machine's own interfaces. */
export const nodeInterfaces = (root: string): InterfaceUsage[] =>
  parseInterfaces(readText(`${root}/proc/1/net/dev`) ?? '');

/** The interfaces in the network namespace of this process; `null` if it has ended or is in the machine's own. */
export function processInterfaces(root: string, pid: number): InterfaceUsage[] | null {
  const text = readText(`${root}/proc/${pid}/net/dev`);
  return text === null || sharesNetwork(root, pid) ? null : parseInterfaces(text);
}

function sharesNetwork(root: string, pid: number): boolean {
  try {
    return readlinkSync(`${root}/proc/${pid}/ns/net`) === readlinkSync(`${root}/proc/self/ns/net`);
  } catch {
    return true;
  }
}
