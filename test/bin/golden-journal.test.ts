/**
 * What today's verbs say of the golden journal of a node. Until a release has written its format it is recorded anew with
 * each change of the machines (`node scripts/record-golden-journals.ts`), and from then on never.
 */
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { replayCommand } from '../../src/bin/commands/replay.ts';
import { criticalChain, describeChain, type Goal, goalOf } from '../../src/bin/insight/critical-chain.ts';
import { startupTime } from '../../src/bin/insight/startup-time.ts';
import { Story } from '../../src/bin/insight/story.ts';
import { describeWhy, type Why, why } from '../../src/bin/insight/why.ts';
import { readJournal } from '../../src/kernel/journal/index.ts';

const JOURNAL = join(import.meta.dirname, '../golden/journals/v3/node');

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
  expect(chain).toMatch(/^pod default\/web-node-1 is Running after 609 ms, working \d+ ms/);
  expect(chain).toContain('cri.startContainer answered');
});

it('replay says the same', async () => {
  let output = '';
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += String(text);
    return true;
  });
  onTestFinished(() => write.mockRestore());
  expect(await replayCommand([JOURNAL], { format: 'text' })).toBe(0);
  expect(output).toMatch(/: same \(incarnation 000001; \d+ records/);
});
