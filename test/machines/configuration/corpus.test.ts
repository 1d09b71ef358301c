/**
 * Compares the pure pipeline with a real kubelet for 835 command lines and configuration files.
 *
 * A case is equal if exit status, stderr and `/configz` are those of the corpus, as far as configuration decides them.
 * Results that depend on another part are counted for that part, not as equal; each excuse has its reason in one file.
 * An excuse or a pattern that no case needs fails, so that the list can only become shorter.
 */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { ENDS_ELSEWHERE, EXCUSED, LINES_ELSEWHERE, OWN_LINE } from '../../golden/config-excused.ts';
import { type Case, type Outcome, play, readCases, withCase } from './corpus.ts';

type Verdict =
  | { readonly kind: 'equal' | 'excused' | 'elsewhere'; readonly part?: string }
  | { readonly kind: 'wrong'; readonly actual: Outcome };

const cases = readCases();
const used = new Set<string>();
const figures = new Map<string, number>();

function count(key: string): void {
  figures.set(key, (figures.get(key) ?? 0) + 1);
}

function partOf(table: readonly (readonly [string, RegExp])[], line: string): string | undefined {
  const found = table.find(([, pattern]) => pattern.test(line));
  if (found !== undefined) used.add(found[0]);
  return found?.[0];
}

/** The corpus has consecutive equal lines once. */
function withoutNeighbours(lines: readonly string[]): string[] {
  return lines.filter((line, index) => line !== lines[index - 1]);
}

function judge({ name, expect: wanted }: Case, outcome: Outcome): Verdict {
  const actual = { ...outcome, stderr: outcome.stderr.filter((line) => !OWN_LINE.test(line)) };
  const wrong: Verdict = Object.hasOwn(EXCUSED, name) ? { kind: 'excused' } : { kind: 'wrong', actual };
  if (wanted.exit !== 'running' && actual.exit === 'running') {
    const part = partOf(ENDS_ELSEWHERE, wanted.stderr.join('\n'));
    return part === undefined ? wrong : { kind: 'elsewhere', part };
  }
  const decidedHere = (line: string): boolean =>
    wanted.exit !== 'running' || partOf(LINES_ELSEWHERE, line) === undefined;
  const equal =
    wanted.exit === actual.exit &&
    isDeepStrictEqual(withoutNeighbours(actual.stderr), withoutNeighbours(wanted.stderr.filter(decidedHere))) &&
    isDeepStrictEqual(actual.stdout, wanted.stdout) &&
    (wanted.configz === null || isDeepStrictEqual(actual.configz, wanted.configz));
  return equal ? { kind: 'equal' } : wrong;
}

describe('configuration corpus', () => {
  it.each(cases.map((each) => [each.name, each] as const))('%s', async (name, raw) => {
    await withCase(raw, async (filled, directory) => {
      const verdict = judge(filled, await play(filled, directory));
      count(verdict.kind);
      if (verdict.kind === 'elsewhere') count(`  ${verdict.part}`);
      if (verdict.kind === 'excused') used.add(name);
      if (verdict.kind !== 'wrong') return;
      const { exit, stderr, stdout, configz } = filled.expect;
      expect(verdict.actual, name).toEqual({ exit, stderr, stdout, configz });
    });
  });

  it('needs every excuse and every pattern it has', () => {
    const known = [...Object.keys(EXCUSED), ...[...ENDS_ELSEWHERE, ...LINES_ELSEWHERE].map(([part]) => part)];
    expect(known.filter((each) => !used.has(each))).toEqual([]);
  });

  it('decides nine cases of ten, and all of those as the kubelet does', () => {
    expect(cases).toHaveLength(835);
    expect(figures.get('wrong') ?? 0).toBe(0);
    expect(figures.get('equal') ?? 0).toBeGreaterThan(0.9 * cases.length);
  });

  afterAll(() => {
    const lines = [...figures].toSorted(([left], [right]) => (left < right ? -1 : 1));
    process.stdout.write(`${cases.length} cases\n${lines.map(([key, value]) => `${key}: ${value}`).join('\n')}\n`);
  });
});
