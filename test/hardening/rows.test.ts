/** Compares the tables of what a node has to survive with the tests: no row is missing, and every named test exists. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { unproved } from '../support/proofs.ts';
import { ATTACKS } from './attacks.ts';
import { BAD_INPUTS } from './bad-inputs.ts';
import { FAULTS } from './faults.ts';
import { PROMISES } from './promises.ts';
import { VULNERABILITIES } from './vulnerabilities.ts';

const ROOT = join(import.meta.dirname, '../..');
const ROWS = [...PROMISES, ...FAULTS, ...BAD_INPUTS, ...ATTACKS, ...VULNERABILITIES];
const numbered = (letter: string, count: number) => Array.from({ length: count }, (_, at) => `${letter}${at + 1}`);

describe('what a node has to survive', () => {
  it('is all there, each once', () => {
    expect(PROMISES.map(({ id }) => id)).toEqual(numbered('P', 12));
    expect(FAULTS.map(({ id }) => id)).toEqual(numbered('F', 17));
    expect(BAD_INPUTS.map(({ id }) => id)).toEqual(numbered('B', 45));
    expect(ATTACKS.map(({ id }) => id)).toEqual(numbered('A', 41));
    const ids = VULNERABILITIES.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it.each(ROWS.map((row) => [row.id, row.what, row] as const))('%s, %s, is proved', (_id, _what, row) => {
    expect(row.proofs.flatMap((proof) => unproved(proof) ?? [])).toEqual([]);
    expect(row.proofs.length > 0 || row.notHere !== '').toBe(true);
  });

  it('notices what is not', () => {
    expect(unproved('test/none.test.ts')).toBe('no test test/none.test.ts');
    expect(unproved(`test/hardening/rows.test.ts::${['no', 'such', 'words'].join('-')}`)).toMatch(/does not say/);
  });
});

it('no source of this agent sets route_localnet (CVE-2020-8558)', () => {
  const sources = globSync('src/**/*.ts', { cwd: ROOT });
  expect(sources.length).toBeGreaterThan(100);
  expect(sources.filter((path) => readFileSync(join(ROOT, path), 'utf8').includes('route_localnet'))).toEqual([]);
});
