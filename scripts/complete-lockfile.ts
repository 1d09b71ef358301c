/**
 * Adds to `package-lock.json` the optional packages for other platforms that the registry did not serve.
 *
 * npm omits a package from the lock file if it cannot fetch it, and `npm ci` then rejects the lock file as incomplete.
 * The added entries have name, version and platform, so that `npm ci` skips the packages for other platforms and
 * fetches those for its own. Run it after every `npm install`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface LockedPackage {
  readonly dev?: boolean;
  readonly engines?: object;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const OS = ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32'];
const CPU = ['arm64', 'arm', 'ia32', 'ppc64', 'riscv64', 's390x', 'x64'];

/** The parts os, cpu and libc of a name such as `…linux-arm64-musl`. */
function platformOf(name: string) {
  const words = name.split('/').at(-1)!.split('-');
  const os = OS.filter((known) => words.includes(known));
  const cpu = CPU.filter((known) => words.includes(known));
  if (os.length !== 1 || cpu.length !== 1) throw new Error(`cannot tell the platform of ${name} by its name`);
  const libc = words.some((word) => word.startsWith('musl'))
    ? ['musl']
    : words.some((w) => w.startsWith('gnu'))
      ? ['glibc']
      : [];
  return { cpu, os, ...(libc.length > 0 && os[0] === 'linux' ? { libc } : {}) };
}

const file = join(import.meta.dirname, '../package-lock.json');
const lock = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, LockedPackage> };
let added = 0;
for (const [path, { dev, optionalDependencies = {} }] of Object.entries(lock.packages)) {
  for (const [name, version] of Object.entries(optionalDependencies)) {
    if (lock.packages[`node_modules/${name}`] || lock.packages[`${path}/node_modules/${name}`]) continue;
    if (!/^\d+\.\d+\.\d+$/.test(version)) throw new Error(`${path} wants ${name} ${version}, which is not one version`);
    const entry = { version, ...platformOf(name), ...(dev ? { dev } : {}), optional: true };
    lock.packages[`node_modules/${name}`] = entry;
    added++;
  }
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1));
writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(sorted) }, null, 2)}\n`);
console.log(`${added} packages added`);
