/**
 * A suite of rows in one guest: the machine is made and started, Statelet installed from its package as an operator does
 * it, each row looked at in order; at the end the journal of every start must replay.
 *
 * Logs, journals and the console are in the suite's folder of `var/guest`.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { requirement } from '../../support/require.ts';
import { podsRun, ROOT_DIR, type Row } from '../rows/row.ts';
import { GuestCluster, NODE } from './cluster.ts';
import { Guest, makeDisks } from './guest.ts';
import { type Hardware, PLAIN } from './hardware.ts';
import { INPUT, OUT, ROOT } from './once.ts';
import { FILES, guestSystem, type Suite } from './system.ts';

const STATELET = join(ROOT, 'src/bin/statelet.js');

export interface Plan {
  /** Of its folder, and of the table in `docs/systemd.md`. */
  readonly name: string;
  readonly debian?: Suite;
  readonly hardware?: Partial<Hardware>;
  /** Fields beside, and in place of, those of `files/kubelet.yaml`. */
  readonly configuration?: object;
  /** Flags of the agent. */
  readonly flags?: readonly string[];
  /** Where `flags` put the journal. */
  readonly journal?: string;
  /** Run as root before Statelet is installed. */
  readonly prepare?: string;
  /** A node of a cluster; without, it runs the static pods of `files/pods`. */
  readonly joined?: boolean;
  readonly rows: readonly Row[];
}

const install = (flags: readonly string[], pods: string): string => `
ctr -n k8s.io images import /mnt/images.tar
dpkg -i /mnt/statelet_*.deb
mkdir -p /etc/kubernetes/manifests
cp /mnt/kubelet.json /etc/kubernetes/kubelet.yaml
${pods}
echo 'STATELET_ARGS=${flags.join(' ')}' >/etc/default/statelet
systemctl enable --now statelet
`;

export function guestSuite(plan: Plan): void {
  describe.skipIf(requirement('guest', inject('guestMissing')).skip)(plan.name, () => {
    const folder = join(OUT, plan.name);
    let guest: Guest;
    let cluster: GuestCluster | undefined;

    beforeAll(async () => {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder, { recursive: true });
      cluster = plan.joined === true ? await GuestCluster.start() : undefined;
      guest = await started(plan, folder, cluster);
    });
    afterAll(async () => {
      if (guest?.isOn()) await saveLogs(guest, folder);
      await cluster?.close();
    });

    test.each(plan.rows)('$what: $seen', ({ see }) => see(guest, cluster!));
    test('journals of every start replay, with the code of this tree', () =>
      replays(guest, plan.journal ?? `${ROOT_DIR}/journal`, folder));
  });
}

async function started(plan: Plan, folder: string, cluster: GuestCluster | undefined): Promise<Guest> {
  const { hardware = {}, debian = 'trixie', flags = [], prepare = '' } = plan;
  const system = guestSystem(debian);
  const input = join(folder, 'input');
  cpSync(INPUT, input, { recursive: true });
  cpSync(FILES, input, { recursive: true });
  const base = parse(readFileSync(join(FILES, 'kubelet.yaml'), 'utf8')) as object;
  writeFileSync(join(input, 'kubelet.json'), JSON.stringify({ ...base, ...plan.configuration }, null, 2));
  await cluster?.writeKubeconfig(join(input, 'kubelet.conf'));
  const machine = { ...PLAIN, ...hardware };
  makeDisks(system, machine, folder, input);
  const guest = new Guest(system, machine, folder);
  await guest.boot();
  if (prepare !== '') await guest.run(`set -e\n${prepare}`);
  const all = ['--config=/etc/kubernetes/kubelet.yaml', `--hostname-override=${NODE}`, ...flags];
  if (cluster === undefined) {
    await guest.run(install(all, 'cp /mnt/pods/* /etc/kubernetes/manifests/'));
    await podsRun(guest);
  } else {
    await guest.run(
      install([...all, '--kubeconfig=/etc/kubernetes/kubelet.conf'], 'cp /mnt/kubelet.conf /etc/kubernetes/'),
    );
    await cluster.untilCondition('Ready', 'True');
  }
  return guest;
}

async function saveLogs(guest: Guest, folder: string): Promise<void> {
  writeFileSync(join(folder, 'journald.log'), await guest.run('journalctl -o short-monotonic --no-pager', true));
  await guest.cut();
}

async function replays(guest: Guest, kept: string, folder: string): Promise<void> {
  const archive = await guest.run(`tar -C ${kept} -cz . | base64 -w0`);
  const journal = join(folder, 'journal');
  mkdirSync(journal);
  const journals = join(folder, 'journals.tar.gz');
  writeFileSync(journals, Buffer.from(archive, 'base64'));
  execFileSync('tar', ['xzf', journals, '-C', journal]);
  const starts = new Set(readdirSync(journal).flatMap((name) => /^j-(\d+)-/.exec(name)?.[1] ?? []));
  expect(starts.size).toBeGreaterThan(0);
  for (const start of starts) {
    const argv = [STATELET, 'replay', `${journal}@${Number(start)}`];
    expect(execFileSync(process.execPath, argv, { encoding: 'utf8' })).toContain('same');
  }
}
