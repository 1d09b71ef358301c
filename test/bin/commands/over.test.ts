/** `time`, `blame`, `diff` and `why` for starts with failures outside of the phases, and for agents that have ended. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { diffCommand } from '../../../src/bin/commands/diff.ts';
import { blameCommand, timeCommand } from '../../../src/bin/commands/time.ts';
import { whyCommand } from '../../../src/bin/commands/why.ts';
import { openJournal } from '../../../src/kernel/journal/open.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';
import { manifest } from '../../../src/simulation/world/kube-world.ts';
import { temporaryDirectory } from '../../kernel/journal/support.ts';
import { type Answers, BootNode, fail } from '../../machines/startup/boot-node.ts';

async function journalOf(records: readonly KernelRecord[]): Promise<string> {
  const directory = temporaryDirectory();
  const journal = openJournal({ directory, durability: 'none' });
  for (const record of records) {
    journal.append(record.k === 'header' ? { ...record, incarnation: journal.incarnation } : record);
    if (record.k === 'end') journal.commit();
  }
  await journal.close();
  return directory;
}

const started = (answers: Answers = {}): Promise<string> =>
  journalOf(new BootNode({ answers }).boot().run(1_000).records);

function printed(run: (chosen: { readonly format: string }) => number): {
  readonly text: string;
  readonly code: number;
} {
  let text = '';
  const output = vi.spyOn(process.stdout, 'write').mockImplementation((part) => {
    text += String(part);
    return true;
  });
  onTestFinished(() => output.mockRestore());
  return { code: run({ format: 'text' }), text };
}

const BUSY: Answers = { 'server.healthz': fail('listen EADDRINUSE: address already in use', 'EADDRINUSE') };
const NAMED = /Failed[^]*healthz {2}server\.healthz 127\.0\.0\.1:10248 .*EADDRINUSE/;

describe('a port of healthz that is taken', () => {
  it('is named by time, blame and why', async () => {
    const busy = await started(BUSY);
    expect(printed((chosen) => timeCommand(busy, chosen)).text).toMatch(NAMED);
    expect(printed((chosen) => blameCommand(busy, chosen)).text).toMatch(NAMED);
    expect(printed((chosen) => whyCommand(busy, 'startup', chosen)).text).toMatch(NAMED);
  });

  it('is a difference to a start in which it was free', async () => {
    const [free, busy] = [await started(), await started(BUSY)];
    const { code, text } = printed((chosen) => diffCommand(free, busy, chosen));
    expect(text).toMatch(/Failed only in b, and not resolved since\n {2}healthz {2}server\.healthz/);
    expect(text).not.toContain('Failed in a alone');
    expect(code).toBe(1);
    expect(printed((chosen) => diffCommand(busy, busy, chosen)).code).toBe(0);
  });
});

describe('an agent that is over', () => {
  it('was killed, where its journal has no end and no process writes it; of a copy that is not known', async () => {
    const killed = await started();
    const { text } = printed((chosen) => whyCommand(killed, 'startup', chosen));
    expect(text).toMatch(/The agent did not end in order: it was killed, ran out of memory, .* after \+\d+ ms/);
    expect(text).toContain('\nThen\n');
    for (const name of ['owner.json', 'owner.lock']) rmSync(join(killed, name));
    expect(printed((chosen) => whyCommand(killed, 'startup', chosen)).text).toContain('\nNow\n');
  });

  it('had this open when it was ended', async () => {
    const node = new BootNode({ answers: {} });
    node.world.pods.fault = (name) => (name === 'cri.runPodSandbox' ? { hangs: true } : undefined);
    node.world.pods.setManifests([manifest({ uid: 'u1' })]);
    node.boot().run(5_000);
    node.send({ type: 'signal.received', signal: 'SIGTERM' }).run(60_000);
    expect(node.ended).toMatchObject({ exitCode: 0 });
    const over = await journalOf(node.records);
    expect(printed((chosen) => whyCommand(over, 'pod/web-node-1', chosen)).text).toMatch(
      /The agent ended at [^]*\nOpen\n {2}pod\/web-node-1 +operation +cri\.runPodSandbox +for 4\.\d+ s/,
    );
  });
});
