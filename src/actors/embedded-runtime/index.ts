/** The door of the embedded runtime: what the rest of the program may use of it. */
export type { EmbeddedRuntime, EmbeddedRuntimeOptions, RuntimeLog } from './embedded-runtime.ts';
export { startEmbeddedRuntime } from './embedded-runtime.ts';
export { BUILT_IN_IMAGE } from './store/images.ts';
