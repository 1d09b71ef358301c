/** The node's chains, in a network namespace of their own, with the real program. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../support/daemon.ts';

const CHILD = join(import.meta.dirname, '../../../support/iptables-child.ts');
const isAvailable =
  spawnSync('unshare', ['--net', 'iptables', '-w', '5', '-t', 'mangle', '-S'], { encoding: 'utf8' }).status === 0;
const CHECK_MS = 100;

/** Keeps the chains, in a process that is alone in its network namespace. */
function keeping(path = process.env['PATH']!) {
  const child: ChildProcess = spawn('unshare', ['--net', process.execPath, CHILD, String(CHECK_MS)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, CHILD_PATH: path },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  child.stdout!.on('data', (chunk) => (output += String(chunk)));
  const items = () =>
    output
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, string>);
  const inside = (...command: string[]) =>
    execFileSync('nsenter', [`--net=/proc/${child.pid}/ns/net`, ...command], { encoding: 'utf8' });
  const until = (type: string, protocol: string, count = 1) =>
    eventually(`${type} ${protocol}`, () => {
      const found = items().filter((item) => item['type'] === type && item['protocol'] === protocol);
      return found.length >= count ? found : null;
    });
  return { inside, items, until };
}

describe.skipIf(!isAvailable)('the chains of the node', () => {
  it('are made for both protocols, the firewall for IPv4 alone', async () => {
    const { inside, until } = keeping();
    await until('iptables.initialized', 'IPv4');
    await until('iptables.initialized', 'IPv6');
    expect(inside('iptables', '-t', 'mangle', '-S')).toContain('-N KUBE-IPTABLES-HINT');
    expect(inside('ip6tables', '-t', 'mangle', '-S')).toContain('-N KUBE-IPTABLES-HINT');
    const filter = inside('iptables', '-t', 'filter', '-S');
    expect(filter).toContain('-N KUBE-FIREWALL');
    expect(filter).toMatch(/^-A INPUT -j KUBE-FIREWALL$/m);
    expect(filter).toMatch(/^-A OUTPUT -j KUBE-FIREWALL$/m);
    expect(filter).toMatch(
      /^-A KUBE-FIREWALL ! -s 127\.0\.0\.0\/8 -d 127\.0\.0\.0\/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP$/m,
    );
    expect(inside('ip6tables', '-t', 'filter', '-S')).not.toContain('KUBE-FIREWALL');
    for (const table of ['mangle', 'nat', 'filter']) {
      await eventually(`a canary in ${table}`, () =>
        inside('iptables', '-t', table, '-S').includes('-N KUBE-KUBELET-CANARY'),
      );
    }
  });

  it('are not made twice', async () => {
    const { inside, until } = keeping();
    await until('iptables.initialized', 'IPv4');
    execTwice(inside);
    const rules = inside('iptables', '-t', 'filter', '-S').split('\n');
    expect(rules.filter((rule) => rule === '-A INPUT -j KUBE-FIREWALL')).toHaveLength(1);
  });

  it('are created again after the tables were flushed', async () => {
    const { inside, items, until } = keeping();
    await until('iptables.initialized', 'IPv4');
    await eventually('the canaries', () => inside('iptables', '-t', 'filter', '-S').includes('CANARY'));
    // In one transaction: rules that are made again in between would keep a chain from being deleted.
    const empty = ['mangle', 'nat', 'filter'].map((table) => `*${table}\\nCOMMIT\\n`).join('');
    inside('sh', '-c', `printf '${empty}' | iptables-restore`);
    // Only the agent that found the chains missing reports this.
    await until('iptables.restored', 'IPv4');
    expect(inside('iptables', '-t', 'filter', '-S')).toMatch(/^-A INPUT -j KUBE-FIREWALL$/m);
    expect(items().filter(({ protocol, type }) => protocol === 'IPv6' && type === 'iptables.restored')).toEqual([]);
  });

  it('cost nothing but a word where the program is missing', async () => {
    const { until } = keeping('/nonexistent');
    const [item] = await until('iptables.failed', 'IPv4');
    expect(item).toMatchObject({ step: 'Failed to ensure that iptables hint chain exists' });
    expect(item!['message']).toContain('ENOENT');
  });
});

/** The same steps by a second node agent in the same namespace. */
function execTwice(inside: (...command: string[]) => string): void {
  const ended = inside(process.execPath, CHILD, String(CHECK_MS), 'once');
  expect(ended).toContain('iptables.initialized');
}
