/** The version of this program, and the kubelet's version whose behaviour it follows. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { PACKAGE_DIRECTORY } from '../actors/package-directory.ts';
import { FORMAT_VERSION } from '../kernel/records.ts';

export const STATELET_VERSION = packageJson.version;
/** The kubelet release that behaviour, texts and defaults follow. */
export const KUBELET_VERSION = 'v1.36.2';
/** As the node reports it. */
export const NODE_VERSION = `${KUBELET_VERSION}+statelet.${STATELET_VERSION}`;

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

/** The output of `statelet --version`: the program, its commit, and the format of its journals. */
export const buildVersion = (): string =>
  `${STATELET_VERSION} (commit ${commit()}, journal format ${FORMAT_VERSION}, as kubelet ${KUBELET_VERSION})`;
