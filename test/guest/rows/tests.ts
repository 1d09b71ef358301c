/** Tests of this checkout that need a machine, run once more on one with systemd and cgroup v2. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { CHECKOUT, CHECKOUT_ENVIRONMENT } from '../support/checkout.ts';
import type { Guest } from '../support/guest.ts';
import { OUT } from '../support/once.ts';
import type { Row } from './row.ts';

/**
 * What takes a second on the machine takes up to half a minute here; limits of tests allow for some of that already.
 */
const PATIENCE = 10;
/** For an hour of tests on the machine that emulates. */
const LIMIT_MS = 4 * 60 * 60_000;
const UNIT = 'tests';
/** In the guest. */
const REPORTS = '/var/tmp';

/** The test files of `STATELET_GUEST_TESTS` in place of the row's, to look into one that failed. */
const chosen = process.env['STATELET_GUEST_TESTS']?.match(/\S+/g);

export const TESTS: readonly Row[] = [
  {
    what: 'recordings of the kubelet (`test/conformance/pods`)',
    seen: 'each pod gets the recorded CRI requests and statuses',
    see: (guest) => pass(guest, 'recordings', ['test/conformance/pods']),
  },
  {
    what: 'the cluster tier (`test/cluster`, the contract of the API server)',
    seen: 'passes, with kube-apiserver 1.36 where one is given',
    see: (guest) => pass(guest, 'cluster', ['--project=cluster']),
  },
  {
    what: 'the hardening tier (faults, crashes and attacks on a real daemon)',
    seen: 'passes',
    see: (guest) => pass(guest, 'hardening', HARDENING),
  },
];

const HARDENING = [
  'faults-of-',
  'crash',
  'process-faults',
  'server-faults',
  'bad-pods',
  'sub-path-race',
  'read-only-root',
  'secrets',
  'probes',
  'volumes',
  'local',
  'registry',
  'replay-cli',
].map((name) => `test/node/${name}`);

/** vitest passes in the guest; its report is brought out. */
async function pass(guest: Guest, name: string, files: readonly string[]): Promise<void> {
  const environment = { ...CHECKOUT_ENVIRONMENT, STATELET_PATIENCE: PATIENCE, STATELET_REQUIRE: 'containerd' };
  const set = Object.entries(environment).map(([key, value]) => `-E ${key}=${value}`);
  const reports = `--reporter=default --reporter=junit --outputFile.junit=${REPORTS}/${name}.xml`;
  const command = `vitest run --maxWorkers=2 ${reports} ${(chosen ?? files).join(' ')} >${REPORTS}/${name}.log 2>&1`;
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
