/** What `statelet --version` says: which program this is, of which commit, and which journals it writes. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PACKAGE_DIRECTORY } from '../actors/package-directory.ts';
import { FORMAT_VERSION } from '../kernel/records.ts';
import { KUBELET_VERSION, STATELET_VERSION } from './version.ts';

/** Digits of a commit that distinguish it from all others. */
const COMMIT_LENGTH = 12;

/** A package has the commit in a file, a checkout in git; anything else has none. */
function commit(): string {
  try {
    return readFileSync(join(PACKAGE_DIRECTORY, 'commit'), 'utf8').trim();
  } catch {
    return commitOfCheckout();
  }
}

function commitOfCheckout(): string {
  try {
    const argv = ['-C', PACKAGE_DIRECTORY, 'rev-parse', `--short=${COMMIT_LENGTH}`, 'HEAD'];
    return execFileSync('git', argv, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown';
  }
}

export const buildVersion = (): string =>
  `${STATELET_VERSION} (commit ${commit()}, journal format ${FORMAT_VERSION}, as kubelet ${KUBELET_VERSION})`;
