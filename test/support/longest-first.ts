/** The order of test files: whoever takes long begins first, so that at the end nobody waits for one file. */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longest, the longest first. Without results of an earlier run vitest goes by the size of
 * files, which says little of those that wait for real time.
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
  'machines/pods/cluster/recorded.golden',
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
