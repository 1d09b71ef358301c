/**
 * Journals recorded by this version and by earlier ones, replayed by today's machines. Those of an earlier version are
 * never recorded anew: an intentional change of a decision is an entry in `BEHAVIORS`
 * (`machines/model/settings/behavior-table.ts`).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { criticalChain, describeChain, type Goal, goalOf } from '../../src/bin/insight/critical-chain.ts';
import { replayOptions } from '../../src/bin/insight/replayed.ts';
import { startupTime } from '../../src/bin/insight/startup-time.ts';
import { Story } from '../../src/bin/insight/story.ts';
import { describeWhy, type Why, why } from '../../src/bin/insight/why.ts';
import { segmentsIn } from '../../src/kernel/journal/layout.ts';
import { type Journal, readJournal } from '../../src/kernel/journal/reader.ts';
import { replay } from '../../src/kernel/replay.ts';
import { NEWEST_BEHAVIOR } from '../../src/machines/model/settings/behaviors.ts';

const JOURNALS = join(import.meta.dirname, '../golden/journals');
const JOURNAL = join(JOURNALS, 'v4/node');

/** The starts of all nodes, as `v4/seed-1 000003`: folder and start. */
const STARTS: readonly string[] = ['v3', 'v4', 'v5'].flatMap((format) =>
  readdirSync(join(JOURNALS, format))
    .filter((name) => name !== 'shop')
    .flatMap((name) => {
      const starts = segmentsIn(join(JOURNALS, format, name)).map(({ incarnation }) => incarnation);
      return [...new Set(starts)].map((start) => `${format}/${name} ${start}`);
    }),
);

it('time, why and critical-chain tell what they told then', () => {
  const story = new Story(readJournal(JOURNAL));
  const times = { totalMs: 52, healthzMs: 39, synchronizingMs: 52 };
  const firstPod = { name: 'default/web-node-1', runningMs: 609 };
  expect(startupTime(story)).toMatchObject({ complete: true, incarnation: '000001', ...times, firstPod });
  const container = why(story, 'pod/web/app', undefined) as Why;
  expect(container.summary).toBe('default/web-node-1/app is Running');
  expect(container.states).toMatchObject([{ actor: 'pod/web-node-1/app', state: 'running', sinceMs: 609 }]);
  expect(describeWhy(container)).toContain('running\n      ← cri.startContainer answered\n');
  const chain = describeChain(criticalChain(story, goalOf(story, 'pod/web') as Goal));
  expect(chain).toMatch(/^pod default\/web-node-1 is Running after 609 ms, waited \d+ ms/);
  expect(chain).toContain('cri.startContainer answered');
});

it.each(STARTS)('%s replays the same', (start) => {
  const [folder = '', incarnation = ''] = start.split(' ');
  const journal = readJournal(join(JOURNALS, folder), { incarnation });
  const { divergence, records } = replay(replayOptions(journal));
  expect(divergence).toBeNull();
  expect(records).toBe([...journal.records].length);
});

it('an earlier node reported an impossible probe once, a node of today reports it in each period', () => {
  const reports = (folder: string): number =>
    [...readJournal(join(JOURNALS, folder)).records].filter(
      (record) => record.k === 'log' && /probe errored/.test(JSON.stringify(record.fields)),
    ).length;
  expect(reports('v3/impossible-probe')).toBe(2);
  expect(reports('v4/impossible-probe')).toBeGreaterThan(6);
});

it('the journal of pods that come and go has their lists and tables as changes', () => {
  const [{ path: segment } = { path: '' }] = segmentsIn(join(JOURNALS, 'v5/pods-that-change'));
  const lines = zstdDecompressSync(readFileSync(segment)).toString();
  expect(lines).toMatch(/"manifests":\{"\$":"[^"]+","\$\+":\[\d+,0,\{/);
  expect(lines).toMatch(/"grants":\{"\$":"[^"]+","the-uid-of-pod-\d+":/);
  expect(lines).toMatch(/"grants":\{"\$":"[^"]+","\$-":\["the-uid-of-pod-3"\]/);
});

it('a journal of a behavior that this build does not know is refused as too new', () => {
  const { header, records, checkpoint, segments } = readJournal(JOURNAL);
  const input = { ...(header.input as object), behavior: NEWEST_BEHAVIOR + 1 };
  const newer = { header: { ...header, input }, records, checkpoint, segments } as Journal;
  expect(() => replayOptions(newer)).toThrow(
    expect.objectContaining({ kind: 'unsupported-version', message: expect.stringMatching(/decided by behavior \d+/) }),
  );
});
