/** A disk with this checkout, its packages, and programs that its tests start and that the guest's system lacks. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { realClusterMissing } from '../../support/cluster.ts';
import type { Disk } from './hardware.ts';
import { ROOT } from './once.ts';

/** The folder of the checkout in the guest. */
export const CHECKOUT = '/opt/checkout';
/** Copied if this machine has them; tests of a missing program are skipped. */
const PROGRAMS = ['/usr/bin/docker-registry', '/usr/bin/kubectl'];
const API_SERVER = ['etcd', 'kube-apiserver'];

/** The environment of commands in the guest. */
export const CHECKOUT_ENVIRONMENT = {
  PATH: `${CHECKOUT}/node_modules/node/bin:${CHECKOUT}/node_modules/.bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin`,
  KUBEBUILDER_ASSETS: `${CHECKOUT}/api-server`,
};

export const MOUNT_CHECKOUT = `
mkdir -p ${CHECKOUT}
mount LABEL=checkout ${CHECKOUT}
ln -sf ${PROGRAMS.map((program) => `${CHECKOUT}${program}`).join(' ')} /usr/bin/
systemctl stop containerd`;

/** @param folder where the files are collected, on the file system of the checkout */
export function checkoutDisk(folder: string): Disk {
  const contents = join(folder, 'checkout');
  mkdirSync(contents);
  const listing = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const listed = execFileSync('git', listing, { cwd: ROOT, encoding: 'utf8' }).split('\0');
  const files = [...listed.filter((file) => file !== '' && existsSync(join(ROOT, file))), 'dist', 'node_modules'];
  // Hard links: a copy is not needed, and the times must stay, because they are compared with that of the bundle.
  const into = ['-al', '--parents', '-t', contents];
  execFileSync('xargs', ['-0', 'cp', ...into, '--'], { cwd: ROOT, input: files.join('\0') });
  const programs = PROGRAMS.filter((program) => existsSync(program));
  if (programs.length > 0) execFileSync('cp', ['--parents', '-L', '-t', contents, ...programs]);
  mkdirSync(join(contents, 'api-server'));
  if (realClusterMissing() === null) {
    const given = API_SERVER.map((name) => join(process.env['KUBEBUILDER_ASSETS']!, name));
    execFileSync('cp', ['-L', '-t', join(contents, 'api-server'), ...given]);
  }
  return { name: 'checkout', size: '4G', format: [], contents };
}
