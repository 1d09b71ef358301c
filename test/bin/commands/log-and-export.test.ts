/** `log`, `export` and `plot` of a node's golden journal, by running the commands. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SaxesParser } from 'saxes';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { exportCommand, plotCommand, plotOf } from '../../../src/bin/commands/export.ts';
import { followLog, type LogOptions, logCommand } from '../../../src/bin/commands/log.ts';
import type { LogEntry } from '../../../src/bin/insight/log.ts';
import { Story } from '../../../src/bin/insight/story.ts';
import { openJournal } from '../../../src/kernel/journal/open.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';
import { BootNode } from '../../machines/startup/boot-node.ts';

const JOURNAL = join(import.meta.dirname, '../../golden/journals/v4/node');

function printed(run: () => number): { code: number; out: string; err: string } {
  const output = { out: '', err: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      output[name === 'stdout' ? 'out' : 'err'] += String(text);
      return true;
    }),
  );
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  return { code: run(), ...output };
}

const kinds = (of: readonly LogEntry[]): Set<KernelRecord['k']> => new Set(of.map(({ record }) => record.k));

function logged(filters: Omit<LogOptions, 'output'>): LogEntry[] {
  const { out } = printed(() => logCommand(JOURNAL, { ...filters, output: 'json' }));
  return out.split('\n').flatMap((text) => (text === '' ? [] : [JSON.parse(text) as LogEntry]));
}

describe('log', () => {
  it('without a filter has every record of every turn', () => {
    const all = [...readJournal(JOURNAL).records].filter(({ k }) => k !== 'end');
    expect(logged({}).map(({ record }) => record.n)).toEqual(all.map(({ n }) => n));
  });

  it('has what an actor and those below it did, by address or by name', () => {
    const byName = logged({ actor: 'pod/web-node-1' });
    expect(byName).toEqual(logged({ actor: 'kubelet/pods/pod-u1' }));
    expect(new Set(byName.map(({ actor }) => actor))).toContain('pod/web-node-1/app');
  });

  it('has kinds of record, types of event and names of operations', () => {
    expect(kinds(logged({ type: 'effect' }))).toEqual(new Set(['effect']));
    const calls = logged({ type: 'cri.createContainer' });
    expect(kinds(calls)).toEqual(new Set(['effect', 'result']));
    expect(logged({ type: 'cri.*' }).length).toBeGreaterThan(calls.length);
  });

  it('follows what a record led to', () => {
    const [asked] = logged({ type: 'cri.pullImage' });
    const led = logged({ cause: String(asked!.record.n) });
    expect(led.map(({ record }) => record.n)).toContain(asked!.record.n);
    expect(led.some(({ record }) => record.k === 'result' && record.name === 'cri.pullImage')).toBe(true);
    expect(led.every(({ record }) => record.n >= asked!.record.n)).toBe(true);
  });

  it('has lines from a level on, times, text of payloads, and all filters together', () => {
    expect(logged({ level: 'warn' }).every(({ record }) => record.k === 'log' && record.level !== 'info')).toBe(true);
    const [since, until] = [logged({ since: '44ms' }), logged({ until: '0.044' })];
    expect(since.every(({ atMs }) => atMs >= 44) && until.every(({ atMs }) => atMs <= 44)).toBe(true);
    const pulls = logged({ grep: '"app:1"', type: 'cri.pullImage', pod: 'web' });
    expect(pulls).toEqual(
      logged({ grep: '"app:1"', type: 'cri.pullImage' }).filter((each) => JSON.stringify(each).includes('u1')),
    );
    expect(logged({ actor: 'nothing' })).toEqual([]);
  });

  it('says what is wrong with a filter, and that there is no such pod', () => {
    expect(printed(() => logCommand(JOURNAL, { level: 'loud', output: 'text' }))).toMatchObject({
      code: 2,
      err: expect.stringMatching(/--level is debug/) as string,
    });
    expect(printed(() => logCommand(JOURNAL, { since: 'noon', output: 'text' })).code).toBe(2);
    expect(printed(() => logCommand(JOURNAL, { pod: 'gone', output: 'text' }))).toMatchObject({
      code: 8,
      err: expect.stringMatching(/there is no pod gone/) as string,
    });
  });
});

describe('export', () => {
  it('has a span of each operation, that ends after it begins, below the one of the start', () => {
    const { code, out } = printed(() => exportCommand(JOURNAL, { to: 'otlp' }));
    expect(code).toBe(0);
    interface Span {
      spanId: string;
      parentSpanId?: string;
      name: string;
      startTimeUnixNano: string;
      endTimeUnixNano: string;
    }
    const [root, ...spans] = JSON.parse(out).resourceSpans[0].scopeSpans[0].spans as [Span, ...Span[]];
    expect(new Set([root, ...spans].map(({ spanId }) => spanId)).size).toBe(spans.length + 1);
    for (const span of spans) {
      expect(span.parentSpanId).toBe(root.spanId);
      expect(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), span.name).toBe(true);
    }
    expect(spans.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['cri.createContainer', 'run.runtimeService']),
    );
    expect(printed(() => exportCommand(JOURNAL, { to: 'otlp' })).out).toBe(out);
  });

  it('has a beginning and an end of each in the form of Chrome', () => {
    const { traceEvents } = JSON.parse(printed(() => exportCommand(JOURNAL, { to: 'chrome' })).out) as {
      traceEvents: { ph: string; id?: number; ts: number; tid: number; cat?: string; name: string }[];
    };
    const of = (ph: string) => traceEvents.filter((event) => event.ph === ph);
    expect(of('b').length).toBeGreaterThan(50);
    expect(of('e').map(({ name }) => name)).toEqual(of('b').map(({ name }) => name));
    of('b').forEach((event, at) => expect(of('e')[at]!.ts).toBeGreaterThanOrEqual(event.ts));
  });

  it('has a CloudEvent for each record, with an id of its own and a cause that is one of them', () => {
    const { out } = printed(() => exportCommand(JOURNAL, { to: 'cloudevents' }));
    interface CloudEvent {
      readonly id: string;
      readonly source: string;
      readonly time: string;
      readonly cause?: string;
      readonly data: KernelRecord;
    }
    const events = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as CloudEvent);
    const records = [...readJournal(JOURNAL).records].filter(({ k }) => k !== 'end');
    expect(events.map(({ data }) => data)).toEqual(records);
    const ids = new Set(events.map(({ id, source }) => `${source} ${id}`));
    expect(ids.size).toBe(events.length);
    expect(events.every(({ cause, source }) => cause === undefined || ids.has(`${source} ${cause}`))).toBe(true);
    const times = events.map(({ time }) => Date.parse(time));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(events.every((event) => 'specversion' in event && event.specversion === '1.0')).toBe(true);
  });

  it('refuses another form', () => {
    expect(printed(() => exportCommand(JOURNAL, { to: 'xml' }))).toMatchObject({
      code: 2,
      err: expect.stringMatching(/otlp, chrome, cloudevents/) as string,
    });
  });
});

describe('plot', () => {
  it('is an SVG with a title, a description, and a bar for each phase within its width', () => {
    const { out } = printed(() => plotCommand(JOURNAL, {}));
    const names: string[] = [];
    const rightEdges: number[] = [];
    const parser = new SaxesParser();
    parser.on('opentag', ({ name, attributes }) => {
      names.push(name);
      if (name === 'rect') rightEdges.push(Number(attributes['x']) + Number(attributes['width']));
    });
    parser.write(out).close();
    expect(Math.max(...rightEdges)).toBeLessThanOrEqual(1_002);
    expect(names.filter((name) => name === 'rect').length).toBeGreaterThan(15);
    expect(names).toEqual(expect.arrayContaining(['title', 'desc']));
    expect(out).not.toMatch(/<script|href/);
  });

  it('says of a node with a hostile name what it is called', () => {
    const { header, checkpoint, records } = readJournal(JOURNAL);
    const node = '</title><script>alert(1)</script>\u0000';
    const renamed = [...records].map((record) => (record.k === 'header' ? { ...record, node } : record));
    const story = new Story({
      header: { ...header, node },
      checkpoint,
      records: renamed,
      checkpointAfter: () => undefined,
    });
    expect(plotOf(story)).not.toContain('<script');
  });
});

it('the page of commands names them', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/commands.md'), 'utf8');
  for (const verb of ['log', 'export', 'plot']) expect(page).toContain(`| \`statelet ${verb} JOURNAL`);
});

describe('log --follow', () => {
  it('goes on with what is written, each record once, and with the start after it', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'statelet-follow-'));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const { records } = new BootNode().boot().run(1_000);
    const write = async (incarnation: string, upTo: number): Promise<void> => {
      const journal = openJournal({ directory, incarnation, durability: 'none' });
      for (const record of records.slice(0, upTo)) {
        journal.append(record.k === 'header' ? { ...record, incarnation } : record);
        if (record.k === 'end') journal.commit();
      }
      await journal.close();
    };
    const turns = records.flatMap((record, at) => (record.k === 'end' ? [at + 1] : []));
    await write('000001', turns[3]!);
    let out = '';
    const spy = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
      out += String(text);
      return true;
    });
    onTestFinished(() => spy.mockRestore());
    const stop = new AbortController();
    const following = followLog(directory, { output: 'json', type: 'state' }, stop.signal);
    const seen = () =>
      out.split('\n').flatMap((line) => (line === '' ? [] : [(JSON.parse(line) as LogEntry).record.n]));
    const statesOf = (upTo: number) => records.slice(0, upTo).flatMap(({ k, n }) => (k === 'state' ? [n] : []));
    await vi.waitFor(() => expect(seen()).toEqual(statesOf(turns[3]!)), 15_000);
    await write('000002', turns[8]!);
    await vi.waitFor(() => expect(seen()).toEqual([...statesOf(turns[3]!), ...statesOf(turns[8]!)]), 15_000);
    stop.abort();
    expect(await following).toBe(0);
  });

  it('is of the newest start', async () => {
    const spy = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    onTestFinished(() => spy.mockRestore());
    expect(await followLog(`${JOURNAL}@1`, { output: 'text' })).toBe(2);
  });
});
