/**
 * What all guests of a run share, built once: the package and the images of the pods. Also checks whether this machine
 * can run a guest: without Debian's packages it cannot, and tests are skipped instead of failing.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { BUSYBOX, buildTestImages } from '../../support/image.ts';
import { guestSystem } from './system.ts';

export const ROOT = join(import.meta.dirname, '../../..');
/** Created by each run; the results of vitest are beside the folders of the guests. */
export const OUT = join(ROOT, 'var/guest');
/** Copied to the disk of each guest. */
export const INPUT = join(OUT, 'input');

declare module 'vitest' {
  interface ProvidedContext {
    /** Why there is no guest here, or null. */
    guestMissing: string | null;
  }
}

export default async function setup(project: TestProject): Promise<void> {
  const missing = missingProgram() ?? missingPackages();
  project.provide('guestMissing', missing);
  if (missing !== null) return;
  rmSync(INPUT, { recursive: true, force: true });
  mkdirSync(INPUT, { recursive: true });
  const made = join(OUT, 'package');
  execFileSync(process.execPath, [join(ROOT, 'scripts/package.ts'), '--level', '0', '--out', made]);
  for (const name of readdirSync(made).filter((each) => each.endsWith('_amd64.deb')))
    withoutCompression(join(made, name), join(INPUT, name));
  await buildTestImages(join(INPUT, 'images.tar'));
  if (kubeletMissing() === null) cpSync(goKubelet(), join(INPUT, 'kubelet'));
}

/** Repacks the package without compression, because the guest would take minutes to decompress it. */
function withoutCompression(deb: string, target: string): void {
  const unpacked = `${deb}.unpacked`;
  execFileSync('dpkg-deb', ['--raw-extract', deb, unpacked]);
  execFileSync('dpkg-deb', ['--root-owner-group', '-Znone', '--build', unpacked, target]);
  rmSync(unpacked, { recursive: true });
}

const goKubelet = (): string => process.env['STATELET_GO_KUBELET'] ?? '';

/** Why there is no Go kubelet for the guests, or null. */
export const kubeletMissing = (): string | null =>
  existsSync(goKubelet()) ? null : 'STATELET_GO_KUBELET does not name a kubelet of Kubernetes 1.36';

function missingProgram(): string | null {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'the guest is of Debian for amd64';
  if (process.getuid?.() !== 0) return 'only root makes its root file system';
  if (!existsSync(BUSYBOX)) return `${BUSYBOX} is not installed (Debian: busybox-static)`;
  return ['mmdebstrap', 'mke2fs'].every(isInstalled) ? null : 'mmdebstrap is not installed (Debian: mmdebstrap)';
}

const isInstalled = (program: string): boolean =>
  ['/usr/bin', '/usr/sbin', '/sbin'].some((folder) => existsSync(join(folder, program)));

function missingPackages(): string | null {
  try {
    guestSystem('trixie');
    return null;
  } catch (error) {
    return `Debian's packages for it cannot be had: ${(error as Error).message}`;
  }
}
