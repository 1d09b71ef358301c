/** The program of the servers' thread: from the sources or from the bundle, like the thread that starts it. */
import module from 'node:module';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { keepCompiled, loadBundle } from './compiled-bundle.js';
import { collectWhenIdle } from './idle-collection.js';

const ROOT = join(import.meta.dirname, '../..');
const COMPILED = join(ROOT, 'dist/compiled');

module.enableCompileCache(COMPILED);
const { facts, isBundled } = workerData;
const { serve } = isBundled
  ? loadBundle(join(ROOT, 'dist/servers.cjs'), COMPILED)
  : await import('../actors/server/thread/serve.ts');
serve(parentPort, facts);
collectWhenIdle(keepCompiled);
