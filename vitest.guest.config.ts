import { defineConfig } from 'vitest/config';

/** The guests' suites, one after the other: hours of emulation, so they have a configuration of their own. CI runs `core`. */
const HOUR_MS = 60 * 60_000;

export default defineConfig({
  test: {
    name: 'guest',
    include: ['test/guest/**/*.test.ts'],
    // A state that does not come is said by the wait for it; these are for what hangs.
    testTimeout: HOUR_MS,
    hookTimeout: HOUR_MS,
    globalSetup: ['test/guest/support/once.ts'],
    pool: 'forks',
    fileParallelism: false,
    reporters: ['verbose', ['junit', { outputFile: 'var/guest/junit.xml' }]],
  },
});
