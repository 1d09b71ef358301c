/**
 * Port: maintains the node's chains in the kernel's tables through the installed `iptables` (nft or legacy).
 *
 * For each protocol: `KUBE-IPTABLES-HINT`, which shows others which variant the node uses; for IPv4 also
 * `KUBE-FIREWALL`, which drops packets from outside to 127.0.0.0/8. A canary chain in each table detects a flush, after
 * which everything is created again.
 *
 * Decides: a protocol that fails initially is ignored, as upstream does. Invariant: an existing chain or rule is not
 * created again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { toPlainError } from '../../../kernel/json.ts';
import type { CallOf, Port } from '../../../kernel/operation.ts';
import type { hostOperations, IptablesItem } from '../../../machines/model/operations/host.ts';
import { runCommand } from './syscall.ts';

type Operation = (typeof hostOperations)['host.keepIptables'];
type Protocol = IptablesItem['protocol'];

const PROGRAMS: Readonly<Record<Protocol, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' };
/** Seconds to wait for another program that holds the xtables lock, as upstream. */
const LOCK_SECONDS = '5';
const CANARY = 'KUBE-KUBELET-CANARY';
const CANARY_TABLES = ['mangle', 'nat', 'filter'] as const;
const HINT = 'KUBE-IPTABLES-HINT';
const FIREWALL = 'KUBE-FIREWALL';
/** The exit status of iptables when the chain exists, or the rule does not. */
const NO_CHAIN_ERROR = '1';

const MARTIAN_RULE = [
  ['-m', 'comment', '--comment', 'block incoming localnet connections'],
  ['--dst', '127.0.0.0/8', '!', '--src', '127.0.0.0/8'],
  ['-m', 'conntrack', '!', '--ctstate', 'RELATED,ESTABLISHED,DNAT', '-j', 'DROP'],
].flat();

export const keepIptables: Port<Operation> = async (call) => {
  await Promise.all((['IPv4', 'IPv6'] as const).map((protocol) => keep(protocol, call)));
  return null;
};

type Call = CallOf<Operation>;

async function keep(protocol: Protocol, call: Call): Promise<void> {
  const { input, signal } = call;
  const tables = new Tables(PROGRAMS[protocol]);
  if (!(await sync(tables, protocol, call))) return;
  call.emit({ type: 'iptables.initialized', protocol });
  let hasCanaries = await setCanaries(tables);
  while (!signal.aborted) {
    await delay(input.periodMs, undefined, { signal }).catch(() => {});
    if (signal.aborted || (hasCanaries && (await areAlive(tables)))) continue;
    if (hasCanaries && (await sync(tables, protocol, call))) call.emit({ type: 'iptables.restored', protocol });
    hasCanaries = await setCanaries(tables);
  }
}

/** One protocol's program. */
class Tables {
  readonly #program: string;

  constructor(program: string) {
    this.#program = program;
  }

  run(...args: readonly string[]): Promise<void> {
    return runCommand(this.#program, ['-w', LOCK_SECONDS, ...args]);
  }

  /** True if the program succeeded, false for exit status {@link NO_CHAIN_ERROR}; any other status is an error. */
  async asks(...args: readonly string[]): Promise<boolean> {
    try {
      await this.run(...args);
      return true;
    } catch (error) {
      if (toPlainError(error).code === NO_CHAIN_ERROR) return false;
      throw error;
    }
  }

  /** Creates a chain; succeeds as well if the chain exists. */
  async chain(table: string, name: string): Promise<void> {
    await this.asks('-N', name, '-t', table);
  }

  /** Adds a rule to a chain of the table `filter`; succeeds as well if the chain has it. */
  async rule(place: '-I' | '-A', chain: string, rule: readonly string[]): Promise<void> {
    const args = [chain, '-t', 'filter', ...rule];
    if (!(await this.asks('-C', ...args))) await this.run(place, ...args);
  }
}

type Step = readonly [failure: string, act: (tables: Tables) => Promise<void>];

const HINT_STEPS: readonly Step[] = [
  ['Failed to ensure that iptables hint chain exists', (tables) => tables.chain('mangle', HINT)],
];
const FIREWALL_STEPS: readonly Step[] = [
  ['Failed to ensure that KUBE-FIREWALL chain exists', (tables) => tables.chain('filter', FIREWALL)],
  [
    'Failed to ensure that OUTPUT chain jumps to KUBE-FIREWALL',
    (tables) => tables.rule('-I', 'OUTPUT', ['-j', FIREWALL]),
  ],
  [
    'Failed to ensure that INPUT chain jumps to KUBE-FIREWALL',
    (tables) => tables.rule('-I', 'INPUT', ['-j', FIREWALL]),
  ],
  [
    'Failed to ensure rule to drop invalid localhost packets in filter table KUBE-FIREWALL chain',
    (tables) => tables.rule('-A', FIREWALL, MARTIAN_RULE),
  ],
];

async function sync(tables: Tables, protocol: Protocol, call: Call): Promise<boolean> {
  const steps = protocol === 'IPv4' ? [...HINT_STEPS, ...FIREWALL_STEPS] : HINT_STEPS;
  for (const [step, act] of steps) {
    try {
      await act(tables);
    } catch (error) {
      call.emit({ type: 'iptables.failed', protocol, step, message: toPlainError(error).message });
      return false;
    }
  }
  return true;
}

/** Creates the canary chains. False if a chain cannot be created; the next check tries again. */
async function setCanaries(tables: Tables): Promise<boolean> {
  try {
    for (const table of CANARY_TABLES) await tables.chain(table, CANARY);
    return true;
  } catch {
    return false;
  }
}

/** Whether the canary chains exist. A failure of the program is no evidence of a flush. */
async function areAlive(tables: Tables): Promise<boolean> {
  for (const table of CANARY_TABLES) {
    const isThere = await tables.asks('-S', CANARY, '-t', table).catch(() => true);
    if (!isThere) return false;
  }
  return true;
}
