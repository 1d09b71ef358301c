/**
 * The Node that a package carries: the one that the npm dependency `node` has installed, without its symbols.
 *
 * The lock file has the checksum of the package that fetches the program, not the program's own. That one is here; it
 * changes with the version in `package.json`.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';

const VERSION = '26.10.0';
const SHA256 = 'ab9c8eecf9f82d6693cdc3accced17034065c8d96213b0aa76a7e803d20ae1da';

export function placeNode(installed: string, target: string): void {
  const sha256 = createHash('sha256').update(readFileSync(installed)).digest('hex');
  if (sha256 !== SHA256) {
    throw new Error(
      `${installed} is not the Node.js ${VERSION} for linux-x64 that scripts/package/node-binary.ts names: its SHA-256 ` +
        `is ${sha256}. Run npm ci; after a change of the version, write the new checksum there.`,
    );
  }
  mkdirSync(dirname(target), { recursive: true });
  // Half of the file is for debuggers of Node itself.
  execFileSync('strip', ['-o', target, installed]);
}
