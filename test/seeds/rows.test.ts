/**
 * Compares the table of rows with the code: no row is missing, every reference exists, every removed flag is refused,
 * and the table agrees with the documents' order. Prints how much is built.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { machinesOf } from '../../src/kernel/steps.ts';
import { FLAGS, hintFor } from '../../src/machines/configuration/flags/flag-table.ts';
import { operations } from '../../src/machines/model/operations/index.ts';
import { kubeletMachine } from '../../src/machines/startup/kubelet.ts';
import { CONTRADICTIONS, DOCUMENTS } from '../machines/startup/order/index.ts';
import { unproved } from '../support/proofs.ts';
import type { Row } from './row.ts';
import { ROWS } from './rows.ts';

const ROOT = join(import.meta.dirname, '../..');
const LAST = 244;
const source = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const machines = machinesOf(kubeletMachine);

interface ChartState {
  readonly states: Readonly<Record<string, ChartState>>;
}

function missingState(machine: string, path: string): string | null {
  const found = [...machines].find(([id]) => id === machine)?.[1] as unknown as { root: ChartState } | undefined;
  if (!found) return `no machine ${machine}`;
  let state: ChartState | undefined = found.root;
  for (const name of path.split('.')) state = state?.states[name];
  return state ? null : `no state ${path} in ${machine}`;
}

function missingName(path: string, name: string | undefined): string | null {
  if (!existsSync(join(ROOT, path))) return `no file ${path}`;
  if (name === undefined) return `${path} names nothing`;
  const declared = new RegExp(`^\\s*(export )?(async )?(const|function|class|interface|type) ${name}\\b`, 'm');
  return declared.test(source(path)) ? null : `no ${name} in ${path}`;
}

/** Why a reference is invalid; `null` if it is valid. */
function missing(ref: string): string | null {
  const state = /^(\w+): ([\w.]+)$/.exec(ref);
  if (state) return missingState(state[1]!, state[2]!);
  if (ref.startsWith('src/')) return missingName(...(ref.split('#') as [string, string | undefined]));
  return Object.hasOwn(operations, ref) ? null : `no operation ${ref}`;
}

const refsOf = (row: Row) => (row.kind === 'built' ? row.here : []);
const byId = new Map(ROWS.map((row) => [row.id, row]));

describe('the rows of the documents', () => {
  it('are all there, each once, in order', () => {
    const wanted = Array.from({ length: LAST }, (_, i) => `S${String(i + 1).padStart(3, '0')}`);
    expect(ROWS.map(({ id }) => id)).toEqual(wanted);
  });

  it.each(ROWS.map((row) => [row.id, row.name, row] as const))('%s %s leads somewhere', (_id, _name, row) => {
    expect(refsOf(row).flatMap((ref) => missing(ref) ?? [])).toEqual([]);
  });

  it.each(ROWS.filter(({ kind }) => kind === 'built').map((row) => [row.id, row] as const))(
    '%s is built and tested',
    (_id, row) => {
      const { here, tests } = row as Row & { readonly kind: 'built' };
      expect(here.length).toBeGreaterThan(0);
      expect(tests.length).toBeGreaterThan(0);
      expect(tests.flatMap((proof) => unproved(proof) ?? [])).toEqual([]);
    },
  );

  it.each(ROWS.filter(({ kind }) => kind === 'instead').map((row) => [row.id, row] as const))(
    '%s says what there is instead, and its flags hint at it',
    (_id, row) => {
      const { instead, flags } = row as Row & { readonly kind: 'instead' };
      expect(instead).toMatch(/\w{2}/);
      expect(flags.filter((flag) => FLAGS.some(({ name }) => name === flag))).toEqual([]);
      expect(flags.filter((flag) => hintFor(flag) === null)).toEqual([]);
    },
  );

  it('notice what leads nowhere', () => {
    expect(missing('kubelet: alive.startup.nowhere')).toBe('no state alive.startup.nowhere in kubelet');
    expect(missing('nobody: alive')).toBe('no machine nobody');
    expect(missing('host.nothing')).toBe('no operation host.nothing');
    expect(missing('src/machines/startup/kubelet.ts#nothing')).toBe('no nothing in src/machines/startup/kubelet.ts');
    expect(missing('src/none.ts#x')).toBe('no file src/none.ts');
    expect(unproved('test/none.test.ts')).toBe('no test test/none.test.ts');
    expect(unproved('test/seeds/rows.test.ts::' + ['no', 'such', 'words'].join('-'))).toMatch(/does not say/);
  });
});

describe('the rows agree with the order of the documents', () => {
  it('what the documents promise an order of is built', () => {
    const promised = [...DOCUMENTS.flatMap(({ promises }) => promises), ...CONTRADICTIONS.flatMap(({ kept }) => kept)];
    const unbuilt = [...new Set(promised.map(({ row }) => row))].filter((id) => byId.get(id)?.kind !== 'built');
    // Rows of the sequence whose own feature is removed or later; the step itself exists in the order.
    expect(unbuilt.sort()).toEqual(['S115']);
  });

  it('what is in no journal is absent for the reason that its row has', () => {
    // What only a cluster has is in no journal of a standalone node, even if it is built.
    const kinds: Readonly<Record<string, string>> = { removed: 'instead', cluster: 'built' };
    const absent = DOCUMENTS.flatMap(({ key, notHere }) => notHere.map((each) => ({ key, ...each })));
    for (const { key, step, row: id, why } of absent.filter(({ why }) => why !== 'folded')) {
      expect(byId.get(id)!.kind, `${key} ${id} ${step}`).toBe(kinds[why] ?? why);
    }
  });

  it('every phase of the chart names only rows that are known', () => {
    const text = JSON.stringify(kubeletMachine.config);
    const ids = text.match(/\bS\d{3}\b/g) ?? [];
    expect(ids.length).toBeGreaterThan(40);
    expect(ids.filter((id) => !byId.has(id))).toEqual([]);
  });
});

afterAll(() => {
  const count = (kind: Row['kind']) => ROWS.filter((row) => row.kind === kind).length;
  process.stdout.write(`${ROWS.length} rows: built ${count('built')}, instead ${count('instead')}\n`);
});
