import { defineConfig } from 'vitest/config';

/** The guest's suite: an hour of emulation, so it has a configuration of its own, and CI does not run it. */
const HOUR_MS = 60 * 60_000;

export default defineConfig({
  test: {
    name: 'guest',
    include: ['test/guest/**/*.test.ts'],
    // A state that does not come is said by the wait for it; these are for what hangs.
    testTimeout: HOUR_MS,
    hookTimeout: HOUR_MS,
    pool: 'forks',
    reporters: ['verbose', ['junit', { outputFile: 'var/guest/junit.xml' }]],
  },
});
