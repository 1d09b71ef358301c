/**
 * The system of a guest, built from Debian packages: a root file system with systemd and containerd, and an emulator
 * that is new enough for its kernel. Both are kept below the user's cache folder, by the hash of their parts.
 *
 * Requires root, `mmdebstrap` and `mke2fs`; the mirror is that of this machine's apt.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Debian's suites: `trixie` has containerd 1.7, `forky` containerd 2. */
export type Suite = 'trixie' | 'forky';

/** The suite of the emulator: bookworm's qemu 7.2 panics trixie's kernel. */
const EMULATOR_SUITE: Suite = 'trixie';
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const DISK = '6G';

const EMULATOR = ['qemu-system-x86', 'seabios', 'libc-bin'];
const SYSTEM = [
  'systemd systemd-sysv dbus libpam-systemd polkitd udev kmod apparmor',
  'linux-image-cloud-amd64 initramfs-tools iproute2 iptables procps util-linux curl jq',
  'containerd runc containernetworking-plugins busybox-static quota',
].flatMap((line) => line.split(' '));

export const FILES = join(import.meta.dirname, '../files');
/** The files of `FILES` that are part of the root file system, with their places. */
const INSTALLED = {
  'agent.socket': '/etc/systemd/system/agent.socket',
  'agent@.service': '/etc/systemd/system/agent@.service',
  'guest.network': '/etc/systemd/network/guest.network',
  '10-bridge.conflist': '/etc/cni/net.d/10-bridge.conflist',
} as const;
/** The configuration for the containerd of each suite. */
const CONTAINERD: Readonly<Record<Suite, string>> = { trixie: 'containerd.toml', forky: 'containerd-2.toml' };
/** Packages of one suite only: containerd 1.7 makes no checkpoints, and only forky runs tests of a checkout. */
const MORE: Readonly<Record<Suite, readonly string[]>> = {
  trixie: [],
  forky: ['criu', 'e2fsprogs', 'libfaketime', 'nfs-common', 'nfs-kernel-server', 'open-iscsi', 'tgt'],
};

/** Further settings, as shell commands; `$1` is the root. */
const SETTINGS = [
  'chroot "$1" systemctl enable agent.socket systemd-networkd.service containerd.service',
  'chroot "$1" systemctl mask apparmor.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer',
  // Only one row each needs a file server and an iSCSI target, and starts it.
  'for unit in nfs-server rpcbind iscsid open-iscsi tgt; do chroot "$1" systemctl disable $unit.service || true; done',
  // Only the drivers of the emulated disks, because a small image is unpacked faster.
  'printf "virtio_pci\\nvirtio_blk\\n" >> "$1/etc/initramfs-tools/modules"',
  'sed -i s/^MODULES=.*/MODULES=list/ "$1/etc/initramfs-tools/initramfs.conf"',
  'chroot "$1" update-initramfs -u',
  'echo guest > "$1/etc/hostname"',
  'mkdir -p "$1/var/log/journal"',
  'printf "LABEL=system / ext4 defaults 0 1\\nLABEL=input /mnt ext4 ro 0 0\\n" > "$1/etc/fstab"',
];

export interface System {
  /** The emulator's files, in Debian's layout. */
  readonly emulator: string;
  readonly kernel: string;
  readonly initrd: string;
  /** The disk of a system that was never started. */
  readonly disk: string;
}

export function guestSystem(suite: Suite): System {
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'statelet-guest');
  mkdirSync(cache, { recursive: true });
  const emulator = cached(cache, 'emulator', [EMULATOR_SUITE, EMULATOR], makeEmulator);
  const installed = { ...INSTALLED, [CONTAINERD[suite]]: '/etc/containerd/config.toml' };
  const contents = Object.keys(installed).map((name) => readFileSync(join(FILES, name), 'utf8'));
  const packages = [...SYSTEM, ...MORE[suite]];
  const parts = [suite, packages, installed, SETTINGS, contents, DISK];
  const system = cached(cache, suite, parts, (folder) => makeSystem({ suite, packages, installed }, folder));
  return {
    emulator,
    kernel: join(system, 'vmlinuz'),
    initrd: join(system, 'initrd.img'),
    disk: join(system, 'disk.img'),
  };
}

/** Uses the cached result of the same parts; removes results of other parts. */
function cached(cache: string, name: string, parts: readonly unknown[], make: (folder: string) => void): string {
  const key = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
  const folder = join(cache, `${name}-${key}`);
  if (existsSync(folder)) return folder;
  for (const old of readdirSync(cache).filter((each) => each.startsWith(`${name}-`)))
    rmSync(join(cache, old), { recursive: true, force: true });
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft);
  make(draft);
  renameSync(draft, folder);
  return folder;
}

function makeEmulator(folder: string): void {
  mmdebstrap(EMULATOR_SUITE, ['--variant=extract', `--include=${EMULATOR.join(',')}`], folder);
}

interface Contents {
  readonly suite: Suite;
  readonly packages: readonly string[];
  readonly installed: Readonly<Record<string, string>>;
}

function makeSystem({ suite, packages, installed }: Contents, folder: string): void {
  const root = join(folder, 'root');
  const copies = Object.entries(installed).map(([name, path]) => `install -D -m 644 ${join(FILES, name)} "$1${path}"`);
  const hooks = [...copies, ...SETTINGS].map((command) => `--customize-hook=${command}`);
  mmdebstrap(suite, ['--variant=minbase', `--include=${packages.join(',')}`, ...hooks], root);
  for (const name of ['vmlinuz', 'initrd.img']) execFileSync('cp', ['-L', join(root, name), join(folder, name)]);
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-L', 'system', '-d', root, join(folder, 'disk.img'), DISK]);
  rmSync(root, { recursive: true });
}

function mmdebstrap(suite: Suite, options: readonly string[], target: string): void {
  const argv = [
    '--quiet',
    '--mode=root',
    `--keyring=${KEYRING}`,
    '--aptopt=APT::Install-Recommends "false"',
    // A mirror may be older than the validity of a suite in development; only its signature matters here.
    '--aptopt=Acquire::Check-Valid-Until "false"',
    ...options,
  ];
  execFileSync('mmdebstrap', [...argv, suite, target, mirror()], { stdio: ['ignore', 'inherit', 'inherit'] });
}

/** The Debian mirror of this machine's apt. */
function mirror(): string {
  const format = '$(REPO_URI) $(LABEL)';
  const listed = execFileSync('apt-get', ['indextargets', '--format', format], { encoding: 'utf8' });
  const line = listed.split('\n').find((each) => each.endsWith(' Debian'));
  if (line === undefined) throw new Error('apt names no mirror of Debian: the guest is made of its packages');
  return line.slice(0, line.indexOf(' '));
}
