/** The order of test files: the longest ones begin first, so that no single file runs alone at the end. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * The files that take longest, in order. Without results of an earlier run, vitest orders files by their size, which
 * says little about tests that wait for real time.
 */
const LONG: readonly string[] = [
  'node/crash',
  'node/faults-of-calls',
  'node/faults-of-the-host',
  'conformance/pods/live',
  'node/faults-of-events',
  'node/faults-of-time',
  'node/faults-of-mounts',
  'node/bad-pods',
  'node/probes',
  'node/standalone',
  'machines/startup/boot-golden',
  'machines/charts/pods/cluster/recorded.golden',
];

const TESTS = join(import.meta.dirname, '..');

const rank = ({ moduleId }: TestSpecification): number => {
  const at = LONG.findIndex((name) => moduleId === join(TESTS, `${name}.test.ts`));
  return at < 0 ? LONG.length : at;
};

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const gone = LONG.filter((name) => !existsSync(join(TESTS, `${name}.test.ts`)));
    if (gone.length > 0) throw new Error(`${import.meta.filename} names tests that are not there: ${gone.join(', ')}`);
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}
