import { defineConfig } from 'vitest/config';

/** The guests' suites, one after the other: hours of emulation, so they have a configuration of their own. CI runs `core`. */
const LONGEST_MS = 4 * 60 * 60_000;

export default defineConfig({
  test: {
    name: 'guest',
    include: ['test/guest/**/*.test.ts'],
    // A state that does not come is said by the wait for it; these are for what hangs.
    testTimeout: LONGEST_MS,
    hookTimeout: LONGEST_MS,
    globalSetup: ['test/guest/support/once.ts'],
    pool: 'forks',
    fileParallelism: false,
    reporters: ['verbose', ['junit', { outputFile: 'var/guest/junit.xml' }]],
  },
});
