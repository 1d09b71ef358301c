/**
 * Hashes the code of each machine: its file and every file that it imports for more than types, except files of other
 * machines. A function that a guard calls in another file is part of its machine.
 *
 * A bundle has no sources beside it: there `scripts/bundle.ts` replaces this module by the finished table.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import xstatePackage from 'xstate/package.json' with { type: 'json' };

const SOURCES = join(import.meta.dirname, '..');
const MACHINES = join(SOURCES, 'machines');
/** The imports of a file that exist at run time, without `import type`. */
const IMPORT = /^(?:import|export)(?! type\b)[^;]*?from '(\.[^']+)';/gm;
const MACHINE_ID = /createMachine\(\{\s*id: '([^']+)'/g;

interface Source {
  readonly sha256: string;
  readonly imports: readonly string[];
  /** Ids of the machines that the file creates. */
  readonly machines: readonly string[];
}

let hashes: Readonly<Record<string, string>> | undefined;

/** Hashes by machine id. The first call reads all sources of the machines: about 50 ms. */
export function sourceHashes(): Readonly<Record<string, string>> {
  hashes ??= hashAll();
  return hashes;
}

function hashAll(): Record<string, string> {
  if (!existsSync(MACHINES)) return {};
  const sources = new Map<string, Source>();
  const sourceOf = (file: string): Source => {
    const source = sources.get(file) ?? read(file);
    sources.set(file, source);
    return source;
  };
  const files = readdirSync(MACHINES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const found = files.flatMap((name) => {
    const file = join(MACHINES, name);
    return sourceOf(file).machines.map((id) => [id, hashOf(file, sourceOf)] as const);
  });
  return Object.fromEntries(found);
}

function read(file: string): Source {
  const text = readFileSync(file, 'utf8');
  return {
    sha256: createHash('sha256').update(text).digest('hex'),
    imports: [...text.matchAll(IMPORT)].map(([, path = '']) => join(dirname(file), path)),
    machines: [...text.matchAll(MACHINE_ID)].map(([, id = '']) => id),
  };
}

function hashOf(file: string, sourceOf: (file: string) => Source): string {
  const parts = new Map<string, string>();
  const add = (each: string): void => {
    const { sha256, imports, machines } = sourceOf(each);
    if (parts.has(each) || (each !== file && machines.length > 0)) return;
    parts.set(each, sha256);
    for (const next of imports) add(next);
  };
  add(file);
  const lines = [...parts].map(([each, sha256]) => `${relative(SOURCES, each)} ${sha256}`).sort();
  return createHash('sha256')
    .update([`xstate ${xstatePackage.version}`, ...lines].join('\n'))
    .digest('hex');
}
