/**
 * Puts the program's modules into one piece in `dist/`: `npm run bundle`, and by itself after `npm ci`.
 *
 * Five hundred files are found, read and linked at each start; of one piece only what runs is read. It is a cache
 * of the sources, as the one of compiled code is: `src/bin/newest-code.js` takes it while no source is newer.
 *
 *   node scripts/bundle.ts [FOLDER]    makes it in that folder, which must be new, and leaves `dist/` as it is
 */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tableOfHashes, writePage } from './bundle-page.ts';

const ROOT = join(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
const [NEXT, BEFORE] = [`${DIST}.next`, `${DIST}.before`];

/** `npm ci --omit=dev` leaves the bundler out. */
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
    // Native code; and what looks for its own other parts, and is loaded only where traces are wanted.
    external: ['koffi', /^@opentelemetry\/(?!api$)/],
  });
  const target = process.argv[2] ?? NEXT;
  rmSync(target, { recursive: true, force: true });
  await bundle.write({
    dir: target,
    // CommonJS takes of Node's own modules what it uses; an ES module has all of `node:http` made ready, with the
    // WebSocket and the fetch of a browser: 100 ms.
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
    // One character beyond ASCII, and V8 keeps a file at two bytes a character and reads it more slowly.
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: false, asciiOnly: true } },
    comments: false,
  });
  await bundle.close();
  await writePage(rolldown, target);
  if (target === NEXT) putInPlace();
}

/**
 * The new folder at once as a whole, and the old one stays for the processes that began with it, until the next bundle.
 */
function putInPlace(): void {
  rmSync(BEFORE, { recursive: true, force: true, maxRetries: 5 });
  if (existsSync(DIST)) renameSync(DIST, BEFORE);
  renameSync(NEXT, DIST);
}
