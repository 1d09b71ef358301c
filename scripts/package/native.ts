/**
 * The native parts of a package: those that `npm ci` has installed, or, for another architecture, npm's packages for
 * it, which npm fetches and which are verified by the lock file and the checksum of the program.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { NODE_VERSION, nameOf, type Platform } from './platforms.ts';

const INSTALLED_NODE = 'node_modules/node/bin/node';

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly integrity?: string }>>;
}

/** The paths of the native parts. */
export interface NativeParts {
  /** The program `node`. */
  readonly node: string;
  /** The folder of koffi's native package. */
  readonly koffi: string;
}

/** `staging`: an existing folder, for packages that are fetched. */
export function nativeParts(root: string, platform: Platform, staging: string): NativeParts {
  if (platform.arch === process.arch) {
    return { node: join(root, INSTALLED_NODE), koffi: join(root, 'node_modules', platform.koffi) };
  }
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Lock;
  const locked = packages[`node_modules/${platform.koffi}`];
  if (locked?.version === undefined || locked.integrity === undefined)
    throw new Error(`package-lock.json has no ${platform.koffi}: run node scripts/complete-lockfile.ts`);
  return {
    node: join(fetched(`node-${nameOf(platform)}@${NODE_VERSION}`, staging), 'bin/node'),
    koffi: fetched(`${platform.koffi}@${locked.version}`, staging, locked.integrity),
  };
}

interface Packed {
  readonly filename: string;
  readonly integrity: string;
}

/** Fetches a package of npm, unpacks it, and returns its folder. */
function fetched(specification: string, staging: string, integrity?: string): string {
  const output = execFileSync(
    'npm',
    ['pack', '--json', '--ignore-scripts', '--pack-destination', staging, specification],
    {
      cwd: staging,
      encoding: 'utf8',
    },
  );
  const packed = Object.values(JSON.parse(output) as Readonly<Record<string, Packed>>)[0]!;
  const archive = join(staging, packed.filename);
  const sum = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (integrity !== undefined && sum !== integrity)
    throw new Error(`${specification} is not what package-lock.json names: its checksum is ${sum}`);
  const folder = join(staging, specification.replaceAll('/', '-'));
  mkdirSync(folder);
  execFileSync('tar', ['-xzf', archive, '-C', folder, '--strip-components=1', '--no-same-owner']);
  return folder;
}

/**
 * Copies Node into a package without its symbols, which are half of the file and serve only debuggers of Node itself.
 */
export function placeNode(
  program: string,
  { nodeSha256, strip, stripPackage, ...platform }: Platform,
  target: string,
): void {
  const sha256 = createHash('sha256').update(readFileSync(program)).digest('hex');
  if (sha256 !== nodeSha256) {
    throw new Error(
      `${program} is not the Node.js ${NODE_VERSION} for linux-${platform.arch} that scripts/package/platforms.ts names: ` +
        `its SHA-256 is ${sha256}. Run npm ci; after a change of the version, write the new checksums there.`,
    );
  }
  if (!isProgram(strip)) throw new Error(`${strip} is not installed (Debian: ${stripPackage})`);
  mkdirSync(dirname(target), { recursive: true });
  execFileSync(strip, ['-o', target, program]);
}

export const isProgram = (name: string): boolean =>
  (process.env['PATH'] ?? '').split(':').some((folder) => existsSync(join(folder, name)));
