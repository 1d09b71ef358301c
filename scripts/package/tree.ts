/**
 * The tree that is installed below a prefix such as `/usr`: the program with the Node that runs it, the units, the man
 * page, completions and licences.
 *
 * Invariant: the same commit and lock file give the same bytes, wherever and whenever the tree is built.
 */
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type Component, componentsOf, licencesText, spdxDocument } from './components.ts';
import { bashCompletion, manualPage, zshCompletion } from './manual.ts';
import { type NativeParts, placeNode } from './native.ts';
import type { Platform } from './platforms.ts';

export const ROOT = join(import.meta.dirname, '../..');
const LIBRARY = 'lib/statelet';

/** The files beside the bundle that the program reads. */
const PROGRAM = ['package.json', 'LICENSE', 'NOTICE', 'proto', 'docs/diagrams', 'src/visualizer', 'schema'];
/** The files that find and load the bundle, and are therefore not in it. */
const DOORS = /^src\/bin\/[\w-]+\.js$/;
/** Files of a dependency that only compilers or browsers read. */
const NOT_RUN = /\.(d\.[cm]?ts|ts|map|md|markdown|min\.js)$|\/(esm|esnext|umd|test|tests|doc|docs|vendor)(\/|$)/;
/** protobufjs bundled for browsers. */
const FOR_BROWSERS = /^dist\/(light\/|minimal\/)?protobuf\.js$/;
const LICENCE = /(^|\/)(licen[cs]e|notice|copying)[^/]*$/i;
const DIRECTORY_MODE = 0o755;
const FILE_MODE = 0o644;
const PROGRAM_MODE = 0o755;

/** Finds its Node beside itself, wherever the tree is installed, and without `PATH`. */
const WRAPPER = `#!/bin/sh
# Runs Statelet with the Node that came with it.
here=\${0%/*}
[ -x "$here/../${LIBRARY}/bin/node" ] || here=/usr/bin
exec "$here/../${LIBRARY}/bin/node" "$here/../${LIBRARY}/src/bin/statelet.js" "$@"
`;

export interface Source {
  readonly version: string;
  readonly commit: string;
  /** Seconds since the epoch: the time of every file. */
  readonly epoch: number;
}

export interface Parts {
  /** The folder of the bundle. */
  readonly bundle: string;
  readonly native: NativeParts;
}

/** Builds the tree in an empty folder. */
export function makeTree(prefix: string, { bundle, native }: Parts, platform: Platform, source: Source): void {
  const library = join(prefix, LIBRARY);
  copyProgram(library, bundle);
  put(join(library, 'commit'), `${source.commit}\n`);
  placeNode(native.node, platform, join(library, 'bin/node'));
  const components = componentsOf(ROOT, platform);
  for (const { name, path, isRunFromDisk } of components)
    if (isRunFromDisk) copyDependency(name === platform.koffi ? native.koffi : join(ROOT, path), join(library, path));
  put(join(prefix, 'bin/statelet'), WRAPPER, PROGRAM_MODE);
  putAround(prefix, source, components);
  settle(prefix, library, source.epoch);
}

function copyProgram(library: string, bundle: string): void {
  for (const path of PROGRAM) copy(path, library);
  const doors = readdirSync(join(ROOT, 'src/bin')).map((name) => `src/bin/${name}`);
  for (const path of doors.filter((each) => DOORS.test(each))) copy(path, library);
  cpSync(bundle, join(library, 'dist'), { recursive: true });
}

function copy(path: string, library: string): void {
  cpSync(join(ROOT, path), join(library, path), { recursive: true });
}

function copyDependency(folder: string, target: string): void {
  const wanted = (file: string): boolean => {
    const inside = relative(folder, file);
    const isNested = inside === 'node_modules' || inside.includes('musl');
    const isRun = !NOT_RUN.test(`/${inside}`) && !FOR_BROWSERS.test(inside);
    return !isNested && (LICENCE.test(inside) || isRun);
  };
  cpSync(folder, target, { recursive: true, filter: wanted });
}

function putAround(prefix: string, source: Source, components: readonly Component[]): void {
  const documents = join(prefix, 'share/doc/statelet');
  const compressed = (text: string): Buffer => gzipSync(text, { level: 9 });
  put(join(documents, 'copyright'), licencesText(ROOT, components));
  put(join(documents, 'sbom.spdx.json'), spdxDocument(source, components));
  put(join(documents, 'changelog.gz'), compressed(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')));
  put(join(prefix, 'share/man/man8/statelet.8.gz'), compressed(manualPage(source)));
  put(join(prefix, 'share/bash-completion/completions/statelet'), bashCompletion());
  put(join(prefix, 'share/zsh/vendor-completions/_statelet'), zshCompletion());
  cpSync(join(ROOT, 'examples/systemd/statelet.service'), join(prefix, 'lib/systemd/system/statelet.service'));
  cpSync(join(ROOT, 'examples/systemd/20-statelet.conf'), join(prefix, 'share/statelet/20-statelet.conf'));
}

function put(path: string, content: string | Buffer, mode = FILE_MODE): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content, { mode });
}

/** Gives all files one time and plain modes. */
function settle(prefix: string, library: string, epoch: number): void {
  const names = readdirSync(prefix, { recursive: true, encoding: 'utf8' });
  for (const path of [...names.map((name) => join(prefix, name)), prefix]) {
    const stats = statSync(path);
    const isProgram =
      stats.isDirectory() || path.startsWith(join(library, 'bin/')) || path === join(prefix, 'bin/statelet');
    chmodSync(path, stats.isDirectory() ? DIRECTORY_MODE : isProgram ? PROGRAM_MODE : FILE_MODE);
    utimesSync(path, epoch, epoch);
  }
}
