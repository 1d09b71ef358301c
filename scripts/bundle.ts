/**
 * Bundles the program's modules into `dist/`: `npm run bundle`, and automatically after `npm ci`.
 *
 * Without a bundle, each start finds, reads and links more than six hundred files. The bundle is a cache of the
 * sources, as the compile cache is one of compiled code: `src/bin/newest-code.js` uses it only while no source is
 * newer.
 *
 *     node scripts/bundle.ts [FOLDER]    writes into FOLDER, which must be new, and leaves `dist/` unchanged
 */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tableOfHashes, writePage } from './bundle-page.ts';

const ROOT = join(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
const [NEXT, BEFORE] = [`${DIST}.next`, `${DIST}.before`];

/** `npm ci --omit=dev` does not install the bundler. */
const bundler = await import('rolldown').catch(() => null);

if (bundler === null) process.stderr.write('No bundle: rolldown is not installed. The sources run as they are.\n');
else await write(bundler);

async function write({ rolldown }: typeof import('rolldown')): Promise<void> {
  const bundle = await rolldown({
    input: {
      main: join(ROOT, 'src/bin/commands/main.ts'),
      servers: join(ROOT, 'src/actors/server/thread/serve.ts'),
      'document-thread': join(ROOT, 'src/actors/host/manifests/document-thread.ts'),
      shim: join(ROOT, 'src/actors/embedded-runtime/process/shim.ts'),
    },
    platform: 'node',
    plugins: [await tableOfHashes()],
    // Native code; and packages that look for files of their own, and are loaded only where traces are exported.
    external: ['koffi', /^@opentelemetry\/(?!api$)/],
  });
  const target = process.argv[2] ?? NEXT;
  rmSync(target, { recursive: true, force: true });
  await bundle.write({
    dir: target,
    // A CommonJS bundle loads only the parts of Node's modules that it uses. An ES module initializes all of
    // `node:http`, with WebSocket and the browser's fetch, which takes 100 ms.
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
    // If a file has one character outside ASCII, V8 stores it with two bytes per character and reads it more slowly.
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: false, asciiOnly: true } },
    comments: false,
  });
  await bundle.close();
  await writePage(rolldown, target);
  if (target === NEXT) putInPlace();
}

/** Replaces the whole folder in one step. The old folder stays for running processes until the next bundle. */
function putInPlace(): void {
  rmSync(BEFORE, { recursive: true, force: true, maxRetries: 5 });
  if (existsSync(DIST)) renameSync(DIST, BEFORE);
  renameSync(NEXT, DIST);
}
