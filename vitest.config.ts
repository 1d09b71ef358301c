import { defineConfig } from 'vitest/config';

const SYSTEM = ['test/contract/**/*.test.ts', 'test/node/**/*.test.ts', 'test/browser/**/*.test.ts'];
/** Real processes, sockets and disks of this machine, seeds by the hundred, every byte of a log. */
const THOROUGH = [
  'test/actors/**/*.test.ts',
  'test/simulation/**/*.test.ts',
  'test/**/{chaos,faults,damage,disk-full,resolve}.test.ts',
];

/**
 * Three projects: `unit` is the fast loop of `npm run check`; `thorough` needs only Node but takes its time; `system`
 * starts containerd, a browser or the daemon itself. What this machine cannot run is listed at the end.
 */
export default defineConfig({
  test: {
    globalSetup: ['test/support/tiers.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...SYSTEM, ...THOROUGH],
          testTimeout: 20_000,
          pool: 'threads',
        },
      },
      {
        test: { name: 'thorough', include: THOROUGH, exclude: SYSTEM, testTimeout: 60_000, pool: 'threads' },
      },
      {
        test: {
          name: 'system',
          include: SYSTEM,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          pool: 'forks',
          // They wait more than they work; more at once would starve their deadlines.
          maxWorkers: 2,
        },
      },
    ],
  },
});
