/**
 * Makes what a node is installed from: an archive that runs wherever it is unpacked, a package for Debian, and their
 * checksums. Needs `npm ci` to have run; takes nothing from the network.
 *
 *   npm run package -- [--out FOLDER] [--level 0..9]
 *
 * `SOURCE_DATE_EPOCH` is the time of the files (default: that of the commit).
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import packageJson from '../package.json' with { type: 'json' };
import { writeDeb, writeTar } from './package/archives.ts';
import { makeTree, ROOT, type Source } from './package/tree.ts';

const { values: flags } = parseArgs({
  options: { out: { type: 'string', default: 'dist.package' }, level: { type: 'string', default: '6' } },
});
const PLATFORM = 'linux-x64';
const COMMIT_LENGTH = 12;

const git = (...argv: readonly string[]): string =>
  execFileSync('git', ['-C', ROOT, ...argv], { encoding: 'utf8' }).trim();

const source: Source = {
  version: packageJson.version,
  commit: git('rev-parse', `--short=${COMMIT_LENGTH}`, 'HEAD'),
  epoch: Number(process.env['SOURCE_DATE_EPOCH'] ?? git('log', '-1', '--format=%ct')),
};
const out = resolve(flags.out);
const level = Number(flags.level);
const staging = mkdtempSync(join(tmpdir(), 'statelet-package-'));
try {
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new Error(`a package is made on ${PLATFORM} alone`);
  const [tree, debian, bundle] = [join(staging, 'tree'), join(staging, 'debian'), join(staging, 'bundle')];
  execFileSync(process.execPath, [join(ROOT, 'scripts/bundle.ts'), bundle], { stdio: 'inherit' });
  mkdirSync(tree);
  mkdirSync(debian);
  makeTree(tree, bundle, source);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const name = `statelet-${source.version}-${PLATFORM}`;
  const [archive, deb] = [`${name}.tar.xz`, `statelet_${source.version}_amd64.deb`];
  writeTar(tree, join(out, archive), name, level);
  writeDeb(tree, debian, join(out, deb), source, level);
  const sums = [archive, deb].map(
    (file) =>
      `${createHash('sha256')
        .update(readFileSync(join(out, file)))
        .digest('hex')}  ${file}\n`,
  );
  writeFileSync(join(out, 'SHA256SUMS'), sums.join(''));
  process.stdout.write(sums.join(''));
} finally {
  rmSync(staging, { recursive: true, force: true });
}
