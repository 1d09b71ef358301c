/**
 * Loads the bundle together with what V8 compiled of it in earlier processes.
 *
 * Node's own compile cache holds only the code compiled while a file is loaded. Most functions are compiled at their
 * first call, again in each process: 80 ms of the start of a full node. So a process that has worked stores its compiled
 * code.
 *
 * Invariants: a cache file is used only for the exact source it was made from, by the same V8 with the same settings; an
 * incomplete file is not used; on a read-only disk nothing is stored. A process reads all files from the folder that
 * existed when it began, even if a newer bundle has replaced this folder.
 */
import { constants, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { cachedDataVersionTag } from 'node:v8';
import vm from 'node:vm';
import zlib from 'node:zlib';

/** The checksums of text and code, before the code. */
const HEADER_BYTES = 8;
/** Loaded files without valid compiled code on disk. @type {{ script: vm.Script, textSum: number, keptAt: string }[]} */
const missing = [];

/** The exports of a CommonJS file with its chunks beside it. `compiledDirectory` is created when it is needed. */
export function loadBundle(path, compiledDirectory) {
  const directory = dirname(path);
  const folder = `/proc/self/fd/${openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY)}`;
  const kept = join(compiledDirectory, cachedDataVersionTag().toString(16));
  const modules = new Map();
  const load = (file) => {
    const known = modules.get(file);
    if (known) return known.exports;
    const module = { exports: {} };
    modules.set(file, module);
    const outside = createRequire(file);
    const require = Object.assign((id) => (id.startsWith('./') ? load(join(directory, id)) : outside(id)), outside);
    compiled(file, folder, join(kept, basename(file))).runInThisContext()(
      module.exports,
      require,
      module,
      file,
      directory,
    );
    return module.exports;
  };
  process.once('exit', keepCompiled);
  return load(path);
}

function compiled(file, folder, keptAt) {
  const text = readFileSync(join(folder, basename(file)), 'latin1');
  const textSum = zlib.crc32(text);
  const cachedData = keptCode(keptAt, textSum);
  const script = new vm.Script(`(function (exports, require, module, __filename, __dirname) { ${text}\n})`, {
    filename: file,
    cachedData,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  if (cachedData === undefined || script.cachedDataRejected) missing.push({ script, textSum, keptAt });
  return script;
}

function keptCode(keptAt, textSum) {
  try {
    const bytes = readFileSync(keptAt);
    const code = bytes.subarray(HEADER_BYTES);
    return bytes.readUInt32LE(0) === textSum && bytes.readUInt32LE(4) === zlib.crc32(code) ? code : undefined;
  } catch {
    return undefined;
  }
}

/** Stores the code that this process has compiled so far, for files without valid compiled code on disk. */
export function keepCompiled() {
  for (const { script, textSum, keptAt } of missing.splice(0)) {
    if (!written(keptAt, textSum, script.createCachedData())) return;
  }
}

function written(keptAt, textSum, code) {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(textSum, 0);
  header.writeUInt32LE(zlib.crc32(code), 4);
  const unfinished = `${keptAt}.${process.pid}`;
  try {
    mkdirSync(dirname(keptAt), { recursive: true });
    writeFileSync(unfinished, Buffer.concat([header, code]));
    renameSync(unfinished, keptAt);
    return true;
  } catch {
    return false;
  }
}
