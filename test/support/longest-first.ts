/** The order of test files: whoever takes long begins first, so that at the end nobody waits for one file. */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take a minute or more, the longest first. Without results of an earlier run vitest goes by the size of
 * files, which says little of those that wait for real time.
 */
const LONG: readonly string[] = [
  'conformance/pods/live',
  'node/faults-of-calls',
  'node/crash',
  'node/faults-of-the-host',
  'node/faults-of-events',
  'node/faults-of-time',
  'node/probes',
  'node/standalone',
];

const rank = ({ moduleId }: TestSpecification): number => {
  const at = LONG.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
  return at < 0 ? LONG.length : at;
};

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}
