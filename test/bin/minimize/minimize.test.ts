/** `statelet minimize`: the smallest part of a failing journal, and of a failing seed. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { minimizeCommand } from '../../../src/bin/commands/minimize.ts';
import { replayCommand } from '../../../src/bin/commands/replay.ts';
import { simulateCommand } from '../../../src/bin/commands/simulate.ts';
import { verifyCommand } from '../../../src/bin/commands/verify.ts';
import { minimizeJournal } from '../../../src/bin/minimize/minimize-journal.ts';
import { reduce } from '../../../src/bin/minimize/reduce.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { FORMAT_VERSION } from '../../../src/kernel/records.ts';
import { replay } from '../../../src/kernel/replay.ts';
import { kubeletMachine } from '../../../src/machines/startup/kubelet.ts';
import { NODE_CHANGES, withNodeChange } from '../../kernel/seeded-changes.ts';
import { BootNode } from '../../machines/startup/boot-node.ts';

const GOLDEN = join(import.meta.dirname, `../../golden/journals/v${FORMAT_VERSION}/node`);
const records = [...readJournal(GOLDEN).records];
const machine = kubeletMachine;
const work = mkdtempSync(join(tmpdir(), 'statelet-minimize-'));
const output = join(work, 'small');
const DEFAULTS = { output, seconds: '60', format: 'text' };

let printed = '';
beforeEach(() => {
  printed = '';
  for (const stream of [process.stdout, process.stderr]) {
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      printed += String(text);
      return true;
    });
  }
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(output, { recursive: true, force: true });
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

describe('of a list', () => {
  const hundred = Array.from({ length: 100 }, (_, at) => at);

  it('the needed items remain, in order, and nothing else', () => {
    const needs = (subset: readonly number[]) =>
      [71, 3, 40].every((each) => subset.includes(each)) ? subset : undefined;
    const { items, trials, isMinimal } = reduce(hundred, needs);
    expect(items).toEqual([3, 40, 71]);
    expect(isMinimal).toBe(true);
    expect(trials).toBeLessThan(100);
  });

  it('a group that is not needed goes at once, and a trial may take less than it was given', () => {
    const trial = (subset: readonly number[]) => (subset.includes(7) ? subset.filter((each) => each <= 7) : undefined);
    const { items, trials } = reduce(hundred, trial, { groups: [(each) => (each > 7 ? 'behind' : '')] });
    expect(items).toEqual([7]);
    expect(trials).toBeLessThan(12);
  });

  it('nothing is tried when time is over', () => {
    const { items, trials, isMinimal } = reduce(hundred, () => expect.unreachable(), { deadlineMs: 0 });
    expect([items, trials, isMinimal]).toEqual([hundred, 0, false]);
  });
});

/** Changes of machines that the inputs alone show; only digests show the others. */
const SHOWN = NODE_CHANGES.filter(({ guard }) => guard !== 'isBuildable' && guard !== 'isDirty').map(
  (change) => [`${change.machine} ${change.guard ?? change.delay}`, change] as const,
);
/** A third of them: all take half a minute of an idle processor. */
const SOME = SHOWN.filter((_, at) => at % 3 === 0);

describe('of a difference', () => {
  it.each(SOME)('%s: at most 50 inputs, the same first difference', (_name, change) => {
    withNodeChange(change, () => {
      const before = replay({ machine, records }).divergence!;
      const minimized = minimizeJournal({ machine, records, deadlineMs: performance.now() + 60_000 });
      if (typeof minimized === 'string') throw new Error(minimized);
      expect(minimized.isMinimal).toBe(true);
      expect(minimized.inputs.after).toBeLessThanOrEqual(50);
      const after = replay({ machine, records: minimized.records });
      expect(after.inputs).toBe(minimized.inputs.after);
      expect([after.divergence?.kind, after.divergence?.actors[0]]).toEqual([before.kind, before.actors[0]]);
    });
  });

  it('the journal is written, is whole, and shows it to replay', async () => {
    await withNodeChange({ machine: 'image', guard: 'verifies' }, async () => {
      expect(await minimizeCommand(GOLDEN, DEFAULTS)).toBe(0);
      expect(printed).toMatch(
        /^a difference \(missing\) at record \d+, by kubelet\/images\/image-app%3A1\n {2}\d+ of \d+ inputs/,
      );
      expect(printed).toContain(`  again: statelet replay ${output}\n`);
      expect(verifyCommand([output], { format: 'text' })).toBe(0);
      expect(await replayCommand([output], {})).toBe(1);
    });
  });
});

describe('of other failures in a journal', () => {
  it('the crash of an actor', () => {
    const node = new BootNode().boot().run(1_000);
    node.send({ type: 'pods.known', uids: 5 }, 'kubelet/softState').run(1_000);
    expect(node.crashes()).toHaveLength(1);
    const minimized = minimizeJournal({ machine, records: node.records, deadlineMs: performance.now() + 60_000 });
    expect(minimized).toMatchObject({ what: expect.stringMatching(/^the crash of kubelet\/softState \(/) });
    if (typeof minimized === 'string') return;
    expect(minimized.inputs.after).toBeLessThan(minimized.inputs.before / 2);
    expect(replay({ machine, records: minimized.records }).divergence).toBeNull();
    expect(minimized.records.filter((record) => record.k === 'state' && record.status === 'error')).toHaveLength(1);
  });

  it('a text', async () => {
    expect(await minimizeCommand(GOLDEN, { ...DEFAULTS, shows: 'RunPodSandbox', format: 'json' })).toBe(8);
    expect(printed).toContain('no record that was decided has "RunPodSandbox"');
    printed = '';
    expect(await minimizeCommand(GOLDEN, { ...DEFAULTS, shows: 'cri.runPodSandbox', format: 'json' })).toBe(0);
    const report = JSON.parse(printed);
    const path = join(import.meta.dirname, '../../../schema/minimize-report.schema.json');
    const fits = new Ajv({ strict: false }).compile(JSON.parse(readFileSync(path, 'utf8')));
    expect(fits(report), JSON.stringify(fits.errors)).toBe(true);
    expect(report.after).toBeLessThanOrEqual(50);
    expect(await replayCommand([output], { strict: true })).toBe(0);
  });

  it('a journal in which nothing fails is left alone', async () => {
    expect(await minimizeCommand(GOLDEN, DEFAULTS)).toBe(8);
    expect(printed).toContain('it replays the same and no actor crashed; name what it shows by --shows');
  });
});

it('of a seed the needed steps remain, and the printed command repeats the failure', async () => {
  await withNodeChange({ machine: 'container', guard: 'mayRestart' }, async () => {
    expect(await minimizeCommand(undefined, { ...DEFAULTS, seed: '1', seconds: '120' })).toBe(0);
    const [, count, line = ''] = /(\d+) of 40 steps are enough[^]*again: statelet simulate (.*)\n/.exec(printed) ?? [];
    expect(Number(count)).toBeLessThanOrEqual(5);
    const [, steps = ''] = /--steps ([\d,]+|none)/.exec(line) ?? [];
    const options = { journals: output, output: 'text', seed: '1', steps, faults: !line.includes('--no-faults') };
    expect(await simulateCommand(options)).toBe(9);
  });
});

it.each([
  [undefined, {}],
  [GOLDEN, { seed: '1' }],
  [undefined, { seed: 'x' }],
  [GOLDEN, { seconds: 'soon' }],
  [GOLDEN, { format: 'xml' }],
  [GOLDEN, { output: GOLDEN }],
] as const)('%s with %j is refused', async (log, options) => {
  expect(await minimizeCommand(log, { ...DEFAULTS, ...options })).toBe(2);
});
