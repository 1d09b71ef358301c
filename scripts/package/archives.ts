/**
 * The tree as files for distribution: an archive to unpack anywhere, and a Debian package.
 *
 * Invariant: the same tree gives the same bytes: files are in order and have one owner and one time, and one thread
 * compresses them.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Platform } from './platforms.ts';
import type { Source } from './tree.ts';

const KIB = 1_024;
const SCRIPT_MODE = 0o755;

/** `level`: the level of xz, 0 to 9. */
export function writeTar(tree: string, file: string, name: string, level: number): void {
  const order = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--format=gnu'];
  const argv = [...order, '--use-compress-program', `xz -T1 -${level}`, `--transform=s,^\\.,${name},`];
  execFileSync('tar', [...argv, '-C', tree, '-cf', file, '.']);
}

export interface Deb {
  readonly file: string;
  readonly platform: Platform;
  readonly source: Source;
  readonly level: number;
}

/** `staging` is an empty folder. */
export function writeDeb(tree: string, staging: string, { file, platform, source, level }: Deb): void {
  const prefix = join(staging, 'usr');
  cpSync(tree, prefix, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
  const control = join(staging, 'DEBIAN');
  mkdirSync(control);
  writeFileSync(join(control, 'control'), controlOf(source, platform, sizeOf(prefix)));
  writeFileSync(join(control, 'md5sums'), sumsOf(staging));
  for (const [name, text] of Object.entries(SCRIPTS)) writeFileSync(join(control, name), text, { mode: SCRIPT_MODE });
  for (const folder of [staging, control]) utimesSync(folder, source.epoch, source.epoch);
  const argv = ['--root-owner-group', '--uniform-compression', '-Zxz', `-z${level}`, '--threads-max=1', '--build'];
  execFileSync('dpkg-deb', [...argv, staging, file], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(source.epoch) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

const filesBelow = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(folder, name)).isFile())
    .toSorted();

const sizeOf = (folder: string): number =>
  filesBelow(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);

const sumsOf = (staging: string): string =>
  filesBelow(join(staging, 'usr'))
    .map(
      (name) =>
        `${createHash('md5')
          .update(readFileSync(join(staging, 'usr', name)))
          .digest('hex')}  usr/${name}\n`,
    )
    .join('');

const controlOf = ({ version }: Source, { debian }: Platform, bytes: number): string => `Package: statelet
Version: ${version}
Architecture: ${debian}
Maintainer: The Statelet developers <statelet@localhost>
Installed-Size: ${Math.ceil(bytes / KIB)}
Section: admin
Priority: optional
Depends: libc6 (>= 2.28), libstdc++6
Recommends: containerd | cri-o, iptables, mount
Description: Kubernetes node agent that remembers why it did each thing
 Takes the place of a kubelet, with its flags, files and folders. Each decision
 is in a journal that can be replayed, searched and looked at in a browser.
`;

/**
 * The scripts of the Debian package. They touch no container, because containers belong to the runtime. After an
 * upgrade, an agent that runs in either of the two units is restarted, because its files have been replaced.
 */
const SCRIPTS: Readonly<Record<string, string>> = {
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  if [ -n "$2" ]; then
    systemctl try-restart statelet.service || true
    if systemctl show --property=ExecStart kubelet.service 2>/dev/null | grep -q /usr/bin/statelet; then
      systemctl try-restart kubelet.service || true
    fi
  fi
fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl stop statelet.service || true
fi
`,
  postrm: `#!/bin/sh
set -e
# What the program compiled of itself.
rm -rf /usr/lib/statelet/dist/compiled
if [ "$1" = remove ]; then
  rmdir --ignore-fail-on-non-empty -p /usr/lib/statelet/dist 2>/dev/null || true
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
`,
};
