/**
 * Builds the files that a node is installed from: an archive that runs wherever it is unpacked, a Debian package, and
 * their checksums. Requires `npm ci`. Only a package for another architecture needs the network: npm fetches the native
 * parts for it.
 *
 *   npm run package -- [--out FOLDER] [--level 0..9] [--arch x64|arm64]
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
import { nativeParts } from './package/native.ts';
import { type Architecture, nameOf, PLATFORMS } from './package/platforms.ts';
import { makeTree, ROOT, type Source } from './package/tree.ts';

const { values: flags } = parseArgs({
  options: {
    out: { type: 'string', default: 'dist.package' },
    level: { type: 'string', default: '6' },
    arch: { type: 'string', default: process.arch },
  },
});
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
  const platform = PLATFORMS[flags.arch as Architecture];
  if (platform === undefined)
    throw new Error(`there is no package for ${flags.arch}: take one of ${Object.keys(PLATFORMS).join(', ')}`);
  if (process.platform !== 'linux') throw new Error('a package is made on Linux alone');
  const [tree, debian, bundle] = [join(staging, 'tree'), join(staging, 'debian'), join(staging, 'bundle')];
  const fetched = join(staging, 'fetched');
  execFileSync(process.execPath, [join(ROOT, 'scripts/bundle.ts'), bundle], { stdio: 'inherit' });
  mkdirSync(tree);
  mkdirSync(debian);
  mkdirSync(fetched);
  makeTree(tree, { bundle, native: nativeParts(ROOT, platform, fetched) }, platform, source);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const name = `statelet-${source.version}-${nameOf(platform)}`;
  const [archive, deb] = [`${name}.tar.xz`, `statelet_${source.version}_${platform.debian}.deb`];
  writeTar(tree, join(out, archive), name, level);
  writeDeb(tree, debian, { file: join(out, deb), platform, source, level });
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
