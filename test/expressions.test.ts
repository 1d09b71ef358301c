/**
 * Every regular expression of the sources takes time that is linear in its input. An expression that matches a run of
 * characters in more than one way, or again from each position, would let a long text stop the node.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAst } from 'rolldown/parseAst';
import { analyse } from 'scslre';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');

interface Expression {
  readonly source: string;
  readonly flags: string;
}

/** All regular expressions of one file. */
function expressionsIn(path: string): Expression[] {
  const found: Expression[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    if ('regex' in node) {
      const { pattern, flags } = node.regex as { pattern: string; flags: string };
      found.push({ source: pattern, flags });
    }
    for (const value of Object.values(node)) visit(value);
  };
  visit(parseAst(readFileSync(join(root, path), 'utf8'), { lang: path.endsWith('.tsx') ? 'tsx' : 'ts' }));
  return found;
}

/** The ways in which an expression takes more than linear time; empty if there are none. */
const problems = (expression: Expression): string[] => analyse(expression).reports.map(({ type }) => type);

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', 'src'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => /\.(ts|tsx|js)$/.test(path));

describe('regular expressions of the sources', () => {
  it('take time that grows as their input does', () => {
    const found = files.flatMap((path) =>
      expressionsIn(path).flatMap((expression) =>
        problems(expression).map((problem) => `${path}: /${expression.source}/${expression.flags} (${problem})`),
      ),
    );
    expect(found).toEqual([]);
  });

  it.each([
    [/^(a+)+$/, ['Self']],
    [/a*a*b/, ['Trade', 'Move', 'Move']],
    [/\/+$/, ['Move']],
  ])('%s is found', (expression, expected) => {
    expect(problems(expression)).toEqual(expected);
  });

  it('are found in the sources at all', () => {
    expect(files.flatMap(expressionsIn).length).toBeGreaterThan(300);
  });
});
