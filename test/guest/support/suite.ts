/**
 * A suite of rows in one guest: the machine is built and started, Statelet is installed from its package as by an
 * operator, each row is checked in order, and at the end the journal of every start must replay.
 *
 * Logs, journals and the console are in the suite's folder of `var/guest`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import { requirement } from '../../support/require.ts';
import { LONGER_WATCHDOG, podsRun, ROOT_DIR, type Row } from '../rows/row.ts';
import { checkoutDisk } from './checkout.ts';
import { GuestCluster } from './cluster.ts';
import { Guest, makeDisks, NODE } from './guest.ts';
import { type Hardware, PLAIN } from './hardware.ts';
import { INPUT, kubeletMissing, OUT, ROOT } from './once.ts';
import { FILES, guestSystem, type Suite } from './system.ts';

const STATELET = join(ROOT, 'src/bin/statelet.js');

export interface Plan {
  /** The name of its folder, and of the table in `docs/systemd.md`. */
  readonly name: string;
  readonly debian?: Suite;
  readonly hardware?: Partial<Hardware>;
  /** Fields that complete or replace those of `files/kubelet.yaml`. */
  readonly configuration?: object;
  /** Flags of the agent. */
  readonly flags?: readonly string[];
  /**
   * The folder of the journal according to `flags`, if it is on a disk that is full for a while: a replay does not
   * cross this.
   */
  readonly journal?: string;
  /** Run as root before Statelet is installed. */
  readonly prepare?: string;
  /** The guest has this checkout for its tests, instead of an installed agent. */
  readonly checkout?: boolean;
  /** The node belongs to a cluster; otherwise it runs the static pods of `files/pods`. */
  readonly joined?: boolean;
  readonly rows: readonly Row[];
}

const installation = (flags: readonly string[], pods: string): string => `
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
    let scene: Scene | undefined;
    const check = async (see: Row['see']): Promise<void> => see(scene!.guest, scene!.cluster!);

    beforeAll(async () => {
      scene = await makeScene(plan, folder);
      await install(plan, scene);
    });
    afterAll(async () => {
      if (scene?.guest.isOn()) await saveLogs(scene.guest, folder);
      await scene?.cluster?.close();
    });

    for (const { what, seen, needs, see } of plan.rows)
      it.skipIf(needs === 'kubelet' && requirement('kubelet', kubeletMissing()).skip)(`${what}: ${seen}`, () =>
        check(see),
      );
    it.skipIf(plan.checkout)('journals of every start replay, with the code of this tree', () =>
      check((guest) => replays(guest, plan)),
    );
  });
}

interface Scene {
  readonly guest: Guest;
  readonly cluster: GuestCluster | undefined;
}

/** A machine that is switched off, and its cluster. */
async function makeScene(
  { debian = 'trixie', hardware = {}, joined, checkout, configuration }: Plan,
  folder: string,
): Promise<Scene> {
  const system = guestSystem(debian);
  const input = join(folder, 'input');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(INPUT, input, { recursive: true });
  cpSync(FILES, input, { recursive: true });
  const base = parse(readFileSync(join(FILES, 'kubelet.yaml'), 'utf8')) as object;
  writeFileSync(join(input, 'kubelet.json'), JSON.stringify({ ...base, ...configuration }, null, 2));
  const cluster = joined === true ? await GuestCluster.start() : undefined;
  await cluster?.writeKubeconfig(join(input, 'kubelet.conf'));
  const plain = { ...PLAIN, ...hardware };
  const machine = checkout === true ? { ...plain, disks: [...plain.disks, checkoutDisk(folder)] } : plain;
  makeDisks(system, machine, folder, input);
  return { guest: new Guest(system, machine, folder), cluster };
}

/** Boots the machine, and makes it a ready node. */
async function install({ prepare = '', flags = [], checkout }: Plan, { guest, cluster }: Scene): Promise<void> {
  await guest.boot();
  if (prepare !== '') await guest.run(`set -e\n${prepare}`);
  if (checkout === true) return;
  const all = ['--config=/etc/kubernetes/kubelet.yaml', `--hostname-override=${NODE}`, ...flags];
  if (cluster === undefined) {
    await guest.run(installation(all, 'cp /mnt/pods/* /etc/kubernetes/manifests/'));
    await podsRun(guest);
  } else {
    const joining = [...all, '--kubeconfig=/etc/kubernetes/kubelet.conf'];
    await guest.run(installation(joining, `cp /mnt/kubelet.conf /etc/kubernetes/\n${LONGER_WATCHDOG}`));
    await cluster.untilCondition('Ready', 'True');
  }
}

async function saveLogs(guest: Guest, folder: string): Promise<void> {
  writeFileSync(join(folder, 'journald.log'), await guest.run('journalctl -o short-monotonic --no-pager', true));
  await guest.cut();
}

async function replays(guest: Guest, { name, journal: kept }: Plan): Promise<void> {
  const folder = join(OUT, name);
  // The agent writes meanwhile, and tar reports this.
  const archive = await guest.run(`tar -C ${kept ?? `${ROOT_DIR}/journal`} -cz . 2>/dev/null | base64 -w0`);
  const journal = join(folder, 'journal');
  mkdirSync(journal);
  const journals = join(folder, 'journals.tar.gz');
  writeFileSync(journals, Buffer.from(archive, 'base64'));
  execFileSync('tar', ['xzf', journals, '-C', journal]);
  const starts = new Set(readdirSync(journal).flatMap((name) => /^j-(\d+)-/.exec(name)?.[1] ?? []));
  expect(starts.size).toBeGreaterThan(0);
  for (const start of starts) {
    const { stdout, stderr } = spawnSync(process.execPath, [STATELET, 'replay', `${journal}@${Number(start)}`], {
      encoding: 'utf8',
    });
    expect(`${stdout}${stderr}`).toMatch(kept === undefined ? /: same / : /: same |the journal was suspended \(ENOSPC/);
  }
}
