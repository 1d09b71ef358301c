/** Tests of this checkout that need a special machine, run on one with systemd and cgroup v2. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { CHECKOUT, CHECKOUT_ENVIRONMENT } from '../support/checkout.ts';
import type { Guest } from '../support/guest.ts';
import { OUT } from '../support/once.ts';
import type { Row } from './row.ts';

/**
 * What takes a second on the real machine takes up to half a minute here; the limits of tests already allow for a part
 * of that.
 */
const PATIENCE = 10;
/** For an hour of tests on the real machine. */
const LIMIT_MS = 4 * 60 * 60_000;
const UNIT = 'tests';
/** The folder of reports in the guest. */
const REPORTS = '/var/tmp';

/** The test files of `STATELET_GUEST_TESTS` instead of the row's, to investigate a failed one. */
const chosen = process.env['STATELET_GUEST_TESTS']?.match(/\S+/g);

/** Two cores are emulated: recordings mostly wait; daemons, API servers and their clients need both. */
const [TWO, ONE] = [2, 1];

export const TESTS: readonly Row[] = [
  {
    what: 'recordings of the kubelet (`test/conformance/pods`)',
    seen: 'each pod gets the recorded CRI requests and statuses',
    see: (guest) => pass(guest, 'recordings', ['test/conformance/pods'], TWO),
  },
  {
    what: 'the cluster tier (`test/cluster`, the contract of the API server)',
    seen: 'passes, with kube-apiserver 1.36 where one is given',
    see: (guest) => pass(guest, 'cluster', ['--project=cluster'], ONE),
  },
  {
    what: 'the hardening tier: an agent that is killed (`crash`)',
    seen: 'touches no container, and its journals replay',
    see: (guest) => pass(guest, 'killed', ofNodes('crash'), ONE),
  },
  {
    what: 'the hardening tier: attacks and wrong pods',
    seen: 'are refused, and the node goes on',
    see: (guest) =>
      pass(guest, 'attacks', ofNodes('bad-pods', 'sub-path-race', 'read-only-root', 'secrets', 'replay-cli'), ONE),
  },
  {
    what: 'the hardening tier: probes, volumes, registries, commands without an API server',
    seen: 'work as on cgroup v1',
    see: (guest) => pass(guest, 'pods', ofNodes('probes', 'volumes', 'local', 'registry'), ONE),
  },
  {
    what: 'the hardening tier: faults of the runtime, the host, the servers and the clock',
    seen: 'are survived',
    see: (guest) => pass(guest, 'faults', ofNodes('faults-of-', 'process-faults', 'server-faults'), ONE),
  },
];

function ofNodes(...names: readonly string[]): string[] {
  return names.map((name) => `test/node/${name}`);
}

/** Requires that vitest passes in the guest; copies its report to the host. */
async function pass(guest: Guest, name: string, files: readonly string[], workers: number): Promise<void> {
  const environment = { ...CHECKOUT_ENVIRONMENT, STATELET_PATIENCE: PATIENCE, STATELET_REQUIRE: 'containerd' };
  const set = Object.entries(environment).map(([key, value]) => `-E ${key}=${value}`);
  const reports = `--reporter=default --reporter=junit --outputFile.junit=${REPORTS}/${name}.xml`;
  const command = `vitest run --maxWorkers=${workers} ${reports} ${(chosen ?? files).join(' ')} >${REPORTS}/${name}.log 2>&1`;
  await guest.run(`systemctl reset-failed ${UNIT} 2>/dev/null
systemd-run --unit=${UNIT} --remain-after-exit -p Delegate=yes -p TasksMax=infinity -p LimitNOFILE=1048576 \\
  -p WorkingDirectory=${CHECKOUT} ${set.join(' ')} sh -c '${command}'`);
  const property = `systemctl show -p SubState --value ${UNIT}`;
  const waited = `for _ in $(seq 20); do [ "$(${property})" = running ] || break; sleep 10; done; ${property}`;
  await guest.until(`${name} end`, waited, (state) => !state.startsWith('running'), LIMIT_MS);
  for (const kind of ['xml', 'log'])
    writeFileSync(join(OUT, 'tests', `${name}.${kind}`), await guest.run(`cat ${REPORTS}/${name}.${kind}`, true));
  expect(await guest.run(`systemctl show -p Result --value ${UNIT}; tail -n 60 ${REPORTS}/${name}.log`)).toMatch(
    /^success/,
  );
  await guest.run(`systemctl stop ${UNIT}`);
}
