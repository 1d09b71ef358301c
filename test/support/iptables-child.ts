/**
 * Keeps the chains in the namespace in which it is started: `node iptables-child.ts <period ms> [once]`; prints each
 * item.
 */
import { keepIptables } from '../../src/actors/host/kernel/iptables.ts';

const [periodMs = '1000', mode = ''] = process.argv.slice(2);
if (process.env['CHILD_PATH']) process.env['PATH'] = process.env['CHILD_PATH'];
let initialized = 0;
const abort = new AbortController();
await keepIptables({
  id: 1,
  input: { periodMs: Number(periodMs) },
  resume: false,
  signal: abort.signal,
  emit: (item) => {
    process.stdout.write(`${JSON.stringify(item)}\n`);
    if (mode === 'once' && item.type === 'iptables.initialized' && ++initialized === 2) abort.abort();
  },
});
