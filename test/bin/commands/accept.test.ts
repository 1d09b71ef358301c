/** `statelet accept`: rewrites only journals that this build replays differently. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it, onTestFinished, vi } from 'vitest';
import { acceptCommand } from '../../../src/bin/commands/accept.ts';
import { STATELET_VERSION } from '../../../src/bin/version.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';
import { inOtherWords, record, statelet } from '../recorded.ts';

const work = mkdtempSync(join(tmpdir(), 'statelet-accept-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

async function accepted(log: string, environment: { readonly CI?: string } = {}) {
  vi.stubEnv('CI', environment.CI ?? '');
  const output = { out: '', err: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      output[name === 'stdout' ? 'out' : 'err'] += String(text);
      return true;
    }),
  );
  onTestFinished(() => {
    vi.unstubAllEnvs();
    for (const spy of spies) spy.mockRestore();
  });
  const code = await acceptCommand([log]);
  for (const spy of spies) spy.mockRestore();
  return { code, ...output };
}

const bytesOf = (log: string): string[] =>
  readdirSync(log).map((name) => `${name} ${readFileSync(join(log, name), 'base64')}`);

const ofVersion = (statelet: string, kept: KernelRecord): KernelRecord =>
  kept.k === 'header' ? { ...kept, build: { ...kept.build, statelet } } : kept;

const changedAfter =
  (n: number, statelet = STATELET_VERSION) =>
  (kept: KernelRecord): KernelRecord =>
    ofVersion(statelet, kept.n > n ? inOtherWords(kept) : kept);

it('writes a journal anew that differs: it replays, has the same start and the same inputs', async () => {
  const log = await record(join(work, 'changed'), changedAfter(40));
  const before = readJournal(log);
  const inputs = [...before.records].filter(({ k }) => k === 'in' || k === 'result' || k === 'timer');
  expect(statelet(['replay', log]).code).toBe(1);
  const { code, out } = await accepted(log);
  expect(out).toMatch(/changed: written anew; it differed from record \d+ on \(different\)\n$/);
  expect(code).toBe(0);
  expect(statelet(['replay', '--strict', log]).code).toBe(0);
  expect(statelet(['verify', log]).code).toBe(0);
  const after = readJournal(log);
  expect(after.header.incarnation).toBe(before.header.incarnation);
  expect([...after.records].filter(({ k }) => k === 'in' || k === 'result' || k === 'timer')).toEqual(inputs);
  expect(readdirSync(work).filter((name) => name.startsWith('.'))).toEqual([]);
});

it('leaves a journal that replays the same as it is', async () => {
  const log = await record(join(work, 'same'));
  const before = bytesOf(log);
  expect(await accepted(log)).toMatchObject({ code: 0, out: `${log}: replays the same\n` });
  expect(bytesOf(log)).toEqual(before);
});

it.each([
  ['another version recorded it', 'Statelet 0.0.1', changedAfter(40, '0.0.1')],
  ['it lacks an input that decides what follows', 'does not wait for', withoutHostname],
])('leaves it as it is when %s', async (name, why, change) => {
  const log = await record(join(work, name.replaceAll(' ', '-')), change);
  const before = bytesOf(log);
  const { code, err } = await accepted(log);
  expect(err).toContain(why);
  expect(code).toBe(125);
  expect(bytesOf(log)).toEqual(before);
});

/** As if the start had failed there: its later operations are not requested now. */
function withoutHostname(kept: KernelRecord): KernelRecord {
  if (kept.k !== 'result' || kept.name !== 'host.hostname') return ofVersion(STATELET_VERSION, kept);
  const { output: _output, ...rest } = kept;
  return { ...rest, error: { name: 'Error', message: 'no name', retriable: false } };
}

it('refuses while CI is set', async () => {
  const log = await record(join(work, 'in-ci'), changedAfter(40));
  const before = bytesOf(log);
  const { code, err } = await accepted(log, { CI: 'true' });
  expect(err).toContain('CI is set');
  expect(code).toBe(8);
  expect(bytesOf(log)).toEqual(before);
});

it('refuses a journal with several starts', async () => {
  const log = await record(join(work, 'several'), changedAfter(40));
  await record(log, changedAfter(40));
  expect((await accepted(log)).err).toContain('it has 2 starts');
});

it('keeps a compressed journal compressed', async () => {
  const log = join(work, 'compressed');
  cpSync(join(import.meta.dirname, '../../golden/journals/v4/node'), log, { recursive: true });
  const [name] = readdirSync(log);
  const { code } = await accepted(log);
  expect([code, readdirSync(log)]).toEqual([0, [name]]);
});
