/** The JSON output of the verbs matches `schema/journal-reports.schema.json` exactly. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { diffCommand } from '../../../src/bin/commands/diff.ts';
import { expectCommand } from '../../../src/bin/commands/expect.ts';
import { logCommand } from '../../../src/bin/commands/log.ts';
import { blameCommand, criticalChainCommand, timeCommand } from '../../../src/bin/commands/time.ts';
import { verifyCommand } from '../../../src/bin/commands/verify.ts';
import { whyCommand } from '../../../src/bin/commands/why.ts';
import { openJournal } from '../../../src/kernel/journal/open.ts';
import { manifest } from '../../../src/simulation/world/kube-world.ts';
import { type Answers, BootNode, fail } from '../../machines/startup/boot-node.ts';

type Schema = { readonly [key: string]: unknown };

/** The schema without additional fields. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const inner = Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, closed(part)]));
  return 'properties' in inner && !('record' in inner) ? { additionalProperties: false, ...inner } : inner;
}

const path = join(import.meta.dirname, '../../../schema/journal-reports.schema.json');
const { definitions } = JSON.parse(readFileSync(path, 'utf8')) as { definitions: Schema };
// docs/journal.md describes the lines of a journal.
const { log, ...others } = definitions;
const known = { ...(closed(others) as Schema), log };

const compiled = new Map(
  Object.keys(known).map((verb) => [
    verb,
    new Ajv({ strict: false }).compile({ $ref: `#/definitions/${verb}`, definitions: known }),
  ]),
);

function fits(verb: string, report: unknown): void {
  const check = compiled.get(verb)!;
  expect(check(report), `${verb}: ${JSON.stringify(check.errors)}`).toBe(true);
}

const folder = mkdtempSync(join(tmpdir(), 'statelet-schemas-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function journal(name: string, answers: Answers, runMs = 3_000): Promise<string> {
  const node = new BootNode({ answers });
  node.world.pods.setManifests([manifest({ uid: 'u1' })]);
  node.boot().run(runMs);
  const directory = join(folder, name);
  mkdirSync(directory);
  const writer = openJournal({ directory, durability: 'none' });
  for (const record of node.records) {
    writer.append(record.k === 'header' ? { ...record, incarnation: writer.incarnation } : record);
    if (record.k === 'end') writer.commit();
  }
  await writer.close();
  return directory;
}

function printed(run: () => number): unknown[] {
  let text = '';
  const output = vi.spyOn(process.stdout, 'write').mockImplementation((part) => {
    text += String(part);
    return true;
  });
  onTestFinished(() => output.mockRestore());
  run();
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
}

const good = await journal('good', {});
const failing = await journal('failing', { 'runtime.connect': fail('no such socket') });
const busy = await journal('busy', { 'server.healthz': fail('EADDRINUSE'), 'cri.status': 'hangs' });
const torn = await journal('torn', {});
const [segment] = [join(torn, 'j-000001-000000000000.ndjson')];
writeFileSync(segment, readFileSync(segment, 'utf8').slice(0, -200));
const damaged = await journal('damaged', {});
const other = join(damaged, 'j-000001-000000000000.ndjson');
writeFileSync(other, readFileSync(other, 'utf8').replace('"k":"effect"', '"k":"affect"'));

const JSON_FORMAT = { format: 'json' };

describe.each([
  ['a start', good],
  ['a start that failed', failing],
  ['one that waits, with a port that is taken', busy],
  ['one that is torn', torn],
])('of %s', (_name, directory) => {
  it('time, blame, why, log, verify and expect', () => {
    const reports: readonly [string, () => number][] = [
      ['time', () => timeCommand(directory, JSON_FORMAT)],
      ['blame', () => blameCommand(directory, JSON_FORMAT)],
      ['why', () => whyCommand(directory, 'startup', JSON_FORMAT)],
      ['log', () => logCommand(directory, { output: 'json' })],
      ['verify', () => verifyCommand([directory], JSON_FORMAT)],
      ['diff', () => diffCommand(good, directory, JSON_FORMAT)],
    ];
    for (const [verb, run] of reports) {
      const lines = printed(run);
      expect(lines.length, verb).toBeGreaterThan(0);
      for (const line of lines) fits(verb, line);
    }
  });
});

it('of what led to healthz, and to a pod', () => {
  const chainTo = (goal: string) => printed(() => criticalChainCommand(good, goal, JSON_FORMAT))[0];
  fits('critical-chain', chainTo('healthz'));
  expect(chainTo('pod/web')).toBeUndefined();
  fits('why', printed(() => whyCommand(good, 'pod/web', JSON_FORMAT))[0]);
});

it('of expectations, kept and broken, and of a journal that there is none of', () => {
  const file = join(folder, 'expectations.yaml');
  writeFileSync(
    file,
    'finished: true\nphases: [run.hostname]\nwithin: { healthz: 1ms }\nnever: [{ actor: kubelet, state: failed }]\n',
  );
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  for (const directory of [good, failing, join(folder, 'none')]) {
    for (const line of printed(() => expectCommand(file, [directory], { output: 'json' }))) fits('expect', line);
  }
});

it('of damage: what is wrong, in words', () => {
  const [report] = printed(() => verifyCommand([damaged], JSON_FORMAT));
  fits('verify', report);
  expect(report).toMatchObject({
    code: 3,
    report: { incarnations: [{ problems: [{ message: expect.stringContaining('checksum') }] }] },
  });
  fits('verify', printed(() => verifyCommand([join(folder, 'none')], JSON_FORMAT))[0]);
});
