/**
 * A node as an operator makes it: Debian with systemd and cgroup v2, Statelet from its package, no npm. Each row of the
 * table in `docs/systemd.md` is looked at, in order; at the end its journals must replay.
 *
 * `npm run test:guest`. Results are in `var/guest`, logs and journals in `node` below it.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildTestImages } from '../support/image.ts';
import { ROWS } from './rows/index.ts';
import { podsRun, ROOT_DIR } from './rows/row.ts';
import { Guest, makeDisks } from './support/guest.ts';
import { FILES, guestSystem } from './support/system.ts';

const ROOT = join(import.meta.dirname, '../..');
/** Made anew by each run; the results of vitest lie beside it. */
const OUT = join(ROOT, 'var/guest/node');
const INPUT = join(OUT, 'input');
const STATELET = join(ROOT, 'src/bin/statelet.js');

const INSTALL = `
ctr -n k8s.io images import /mnt/images.tar
dpkg -i /mnt/statelet_*.deb
mkdir -p /etc/kubernetes/manifests
cp /mnt/kubelet.yaml /etc/kubernetes/
cp /mnt/pods/* /etc/kubernetes/manifests/
echo 'STATELET_ARGS=--config=/etc/kubernetes/kubelet.yaml --hostname-override=guest' >/etc/default/statelet
systemctl enable --now statelet
`;

let guest: Guest;

beforeAll(async () => {
  const system = guestSystem();
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(INPUT, { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'scripts/package.ts'), '--level', '0', '--out', join(OUT, 'package')]);
  for (const name of readdirSync(join(OUT, 'package')).filter((each) => each.endsWith('.deb')))
    cpSync(join(OUT, 'package', name), join(INPUT, name));
  cpSync(FILES, INPUT, { recursive: true });
  await buildTestImages(join(INPUT, 'images.tar'));
  makeDisks(system, OUT, INPUT);
  guest = new Guest(system, OUT);
  await guest.boot();
  await guest.run(INSTALL);
  await podsRun(guest);
});

afterAll(async () => {
  if (!guest?.isOn()) return;
  writeFileSync(join(OUT, 'journald.log'), await guest.run('journalctl -o short-monotonic --no-pager', true));
  await guest.cut();
});

test.each(ROWS)('$what: $seen', ({ see }) => see(guest));

test('journals of every start replay, with the code of this tree', async () => {
  const archive = await guest.run(`tar -C ${ROOT_DIR} -cz journal | base64 -w0`);
  const journals = join(OUT, 'journals.tar.gz');
  writeFileSync(journals, Buffer.from(archive, 'base64'));
  execFileSync('tar', ['xzf', journals, '-C', OUT]);
  const journal = join(OUT, 'journal');
  const starts = new Set(readdirSync(journal).flatMap((name) => /^j-(\d+)-/.exec(name)?.[1] ?? []));
  expect(starts.size).toBeGreaterThan(1);
  for (const start of starts) {
    const argv = [STATELET, 'replay', `${journal}@${Number(start)}`];
    expect(execFileSync(process.execPath, argv, { encoding: 'utf8' })).toContain('same');
  }
});
