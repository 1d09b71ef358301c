import { defineConfig } from 'vitest/config';

/**
 * Two projects: `unit` is everything that needs only Node and runs in seconds; `system` starts containerd, a browser or
 * the daemon itself and reports what it cannot run on this machine.
 */
export default defineConfig({
  test: {
    globalSetup: ['test/support/tiers.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: ['test/contract/**', 'test/node/**', 'test/browser/**', 'test/cluster/**'],
          pool: 'threads',
        },
      },
      {
        test: {
          name: 'system',
          include: ['test/contract/**/*.test.ts', 'test/node/**/*.test.ts', 'test/browser/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          pool: 'forks',
          fileParallelism: false,
        },
      },
    ],
  },
});
