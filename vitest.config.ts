import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/support/longest-first.ts';
import { patient } from './test/support/patience.ts';

const SYSTEM = ['contract', 'conformance', 'node', 'browser'].map((folder) => `test/${folder}/**/*.test.ts`);
/** Everything that wants an API server: a real one when KUBEBUILDER_ASSETS names it. */
const CLUSTER = ['test/cluster/**/*.test.ts', 'test/contract/api-server*.test.ts'];
/** Has a configuration of its own: `vitest.guest.config.ts`. */
const GUEST = ['test/guest/**/*.test.ts'];
/**
 * Real processes, sockets and disks of this machine, seeds by the hundred, every byte of a log, recordings of kubelets
 * by the hundred, pods of a hundred containers.
 */
const THOROUGH = [
  'test/actors/**/*.test.ts',
  'test/{hardening,simulation}/**/*.test.ts',
  'test/bin/{commands,minimize,replay,rewrite,simulation}/**/*.test.ts',
  'test/machines/**/{boot-golden,claims-chaos,crashes,groups,recorded.golden}.test.ts',
  'test/**/{faults,damage,disk-full,resolve}.test.ts',
];

/**
 * Files at a time, the same for every project, so that one queue serves them all: what waits for daemons more than it
 * works goes beside what works. Many more would starve the deadlines of the former.
 */
const maxWorkers = Math.min(availableParallelism() + 1, 8);

/**
 * Four projects: `unit` is the fast loop of `npm run check`; `thorough` needs only Node but takes its time; `system`
 * starts containerd, a browser or the daemon itself; `cluster` is for an API server. What this machine cannot run is
 * listed at the end.
 */
export default defineConfig({
  test: {
    globalSetup: ['test/support/tiers.ts'],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...SYSTEM, ...THOROUGH, ...CLUSTER, ...GUEST],
          // Virtual time: only what never ends takes as long, also with other work on every core.
          testTimeout: patient(240_000),
          hookTimeout: patient(240_000),
          pool: 'threads',
          maxWorkers,
        },
      },
      {
        test: {
          name: 'thorough',
          include: THOROUGH,
          exclude: SYSTEM,
          // What takes seconds on a quiet machine: who waits in vain says for what before that.
          testTimeout: patient(240_000),
          hookTimeout: patient(240_000),
          expect: { poll: { timeout: patient(30_000) } },
          pool: 'threads',
          maxWorkers,
        },
      },
      {
        test: {
          name: 'system',
          include: SYSTEM,
          exclude: CLUSTER,
          // What takes seconds on a quiet machine; each wait says itself what it waited for in vain.
          testTimeout: patient(240_000),
          hookTimeout: patient(240_000),
          expect: { poll: { timeout: patient(30_000) } },
          pool: 'forks',
          maxWorkers,
        },
      },
      {
        test: {
          name: 'cluster',
          include: CLUSTER,
          // They wait for a cluster and a node; both may have to share the machine. Each wait says itself what for.
          testTimeout: patient(400_000),
          hookTimeout: patient(600_000),
          expect: { poll: { timeout: patient(30_000) } },
          pool: 'forks',
          maxWorkers,
        },
      },
    ],
  },
});
