/** The reports of `statelet replay`: their forms, and that contents of a log stay text in each of them. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { SaxesParser } from 'saxes';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { reporterFor } from '../../../src/bin/commands/replay.ts';
import { type Outcome, shellLine } from '../../../src/bin/replay/outcome.ts';
import { inOtherWords, record, statelet } from '../recorded.ts';

const work = mkdtempSync(join(tmpdir(), 'statelet-replay-reports-'));
const schema = JSON.parse(readFileSync(join(import.meta.dirname, '../../../schema/replay-report.schema.json'), 'utf8'));
const isReport = new Ajv({ strict: false, allErrors: true }).compile(schema);

beforeAll(async () => {
  // After the first turns, so that a line of the log has a history.
  await record(join(work, 'changed'), (kept) => (kept.n > 40 ? inOtherWords(kept) : kept));
  await record(join(work, 'same'));
  cpSync(join(work, 'same'), join(work, 'same-too'), { recursive: true });
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

const replay = (output: string, ...logs: string[]) => statelet(['replay', '--output', output, ...logs], { cwd: work });

/** Texts that the name of a pod or a registry's message may contain. */
const HOSTILE =
  '\u001b[31m%0A\r\n::error::forged\n##[error]x\u202e]]><b a="\'&|`[a](b)@all ://x.example \ud800\ufffe\u0000';
const hostile: Outcome = {
  log: `logs/${HOSTILE}`,
  verdict: 'divergence',
  code: 1,
  incarnation: '000001',
  records: 5,
  turns: 1,
  inputs: 0,
  seconds: 0.5,
  recordedBy: { statelet: HOSTILE, node: 'v26', xstate: '5', machines: {} },
  machinesChanged: [HOSTILE],
  divergence: {
    n: 5,
    turn: 0,
    kind: 'different',
    expected: { n: 5, k: 'log', at: 'kubelet', level: 'info', text: HOSTILE },
    actual: { n: 5, k: 'log', at: 'kubelet', level: 'info', text: 'said' },
    differences: [{ path: `.${HOSTILE}`, expected: HOSTILE, actual: 'said' }],
    input: null,
    actors: [HOSTILE],
    state: { [HOSTILE]: HOSTILE },
    chain: [],
    behind: [],
  },
  reproduce: shellLine(['statelet', HOSTILE]),
};

function reported(format: string, outcomes: readonly Outcome[]): string {
  const reporter = reporterFor(format)!;
  return outcomes.map((one) => reporter.outcome?.(one) ?? '').join('') + (reporter.end?.(outcomes, 1) ?? '');
}

describe('text', () => {
  it('explains a difference: actor, state, what led there, and a line that shows it again', () => {
    const { stdout } = replay('text', 'changed');
    expect(stdout).toMatch(/^ {2}by kubelet\S*, (in |which began in this turn)/m);
    expect(stdout).toMatch(/\n {2}what led there\n {6}record \d+, (header|in|timer|result)\b/);
    const again = /^ {2}again: statelet (.*)$/m.exec(stdout)![1]!.split(' ');
    expect(again).toEqual(['replay', 'changed', '--incarnation', '000001']);
    expect(statelet(again, { cwd: work }).stdout).toMatch(/first difference at record \d+/);
  });

  it('has notes of what was not promised, with the machines', () => {
    const note = {
      n: 7,
      turn: 3,
      kind: 'digest',
      record: { n: 7, k: 'end', turn: 3, digest: 'x' },
      differences: [],
    } as const;
    const { divergence: _none, reproduce: _line, ...facts } = hostile;
    const noted: Outcome = { ...facts, verdict: 'same', code: 0, machinesChanged: ['pod'], notes: [note], noted: 12 };
    const text = reported('text', [noted]);
    expect(text).toMatch(/12 notes of .*\n.*not the recorded ones: pod\n.*record 7 of turn 3: digest/);
    expect(isReport(JSON.parse(reported('json', [noted]))), JSON.stringify(isReport.errors)).toBe(true);
  });

  it('quotes the words of that line for a shell', () => {
    expect(shellLine(['a/b.c', "it's $HOME", ''])).toBe("a/b.c 'it'\\''s $HOME' ''");
  });
});

describe('json', () => {
  it('is as the published schema says, for every outcome', () => {
    const { code, stdout } = replay('json', '.', 'nowhere');
    const report = JSON.parse(stdout) as { code: number; totals: unknown; logs: { verdict: string }[] };
    expect(isReport(report), JSON.stringify(isReport.errors)).toBe(true);
    expect(report.totals).toMatchObject({ same: 2, divergence: 1, invalid: 1 });
    expect(report.logs.map(({ verdict }) => verdict)).toEqual(['divergence', 'invalid', 'same', 'same']);
    expect([code, report.code]).toEqual([1, 1]);
  });

  it('has no field that the schema does not describe', () => {
    const { log, divergence, mismatch } = schema.definitions;
    const described = { ...log.properties, ...divergence.properties, ...mismatch.properties };
    const [changed] = (JSON.parse(replay('json', 'changed').stdout) as { logs: { divergence: object }[] }).logs;
    const fields = [...Object.keys(changed!), ...Object.keys(changed!.divergence)];
    expect(fields.filter((field) => !(field in described))).toEqual([]);
  });

  it('the schema refuses a report that says less', () => {
    const report = JSON.parse(reported('json', [hostile])) as { logs: { divergence?: unknown }[] };
    expect(isReport(report), JSON.stringify(isReport.errors)).toBe(true);
    delete report.logs[0]!.divergence;
    expect(isReport(report)).toBe(false);
  });

  it('has the name --format too', () => {
    const { stdout } = statelet(['replay', 'same', '--format', 'json'], { cwd: work });
    expect(isReport(JSON.parse(stdout))).toBe(true);
  });
});

describe('junit', () => {
  it('has a case for each log: a difference fails, what cannot be compared is an error', () => {
    const { stdout } = replay('junit', '.', 'nowhere');
    const elements = elementsOf(stdout);
    expect(elements[0]).toMatchObject({ name: 'testsuites', tests: '4', failures: '1', errors: '1' });
    expect(elements.slice(2).map(({ name, log, type }) => [name, log ?? type])).toEqual([
      ['testcase', 'changed'],
      ['failure', 'divergence'],
      ['testcase', 'nowhere'],
      ['error', 'invalid'],
      ['testcase', 'same'],
      ['testcase', 'same-too'],
    ]);
    expect(elements[3]!['text']).toContain('first difference at record');
  });

  it('is well-formed whatever a log says', () => {
    const text = reported('junit', [hostile]);
    expect(text.isWellFormed()).toBe(true);
    const elements = elementsOf(text);
    expect(elements.map(({ name }) => name)).toEqual(['testsuites', 'testsuite', 'testcase', 'failure']);
    expect(elements[2]!['log']).toContain(']]><b a="\'&|');
  });
});

/** The elements in order, each with its attributes (a case's name as `log`) and its text; strict XML 1.0. */
function elementsOf(xml: string): Record<string, string>[] {
  const elements: Record<string, string>[] = [];
  const parser = new SaxesParser({});
  parser.on('opentag', ({ name, attributes: { name: log, ...rest } }) => {
    elements.push({ name, ...(log === undefined ? {} : { log }), ...rest });
  });
  parser.on('text', (text) => {
    const last = elements.at(-1);
    if (last) last['text'] = `${last['text'] ?? ''}${text}`;
  });
  parser.on('error', (error) => {
    throw error;
  });
  parser.write(xml).close();
  return elements;
}

describe('github', () => {
  it('is one annotation a log, which nothing in it can end', () => {
    const orders = reported('github', [hostile]).match(/^(::|##\[).*/gm);
    expect(orders).toHaveLength(1);
    expect(orders![0]).toMatch(/^::error title=logs\/\\x1b\[31m%250A\\x0d%0A\\%3A%3Aerror%3A%3Aforged/);
    expect(orders![0]).toContain('%0A  first difference at record 5 of turn 0');
  });

  it('shows ten errors, as GitHub drops the rest in silence', () => {
    const many = Array.from({ length: 25 }, (_, i) => ({ ...hostile, log: `log-${i}` }));
    const orders = reported('github', many).match(/^::error .*/gm)!;
    expect(orders).toHaveLength(10);
    expect(orders[9]).toContain('16 more logs');
  });

  it('appends the table to the summary of the step', () => {
    const file = join(work, 'summary.md');
    vi.stubEnv('GITHUB_STEP_SUMMARY', file);
    onTestFinished(() => void vi.unstubAllEnvs());
    expect(replay('github', 'changed', 'same').code).toBe(1);
    expect(replay('github', 'same').stdout).not.toContain('::error');
    const summary = readFileSync(file, 'utf8');
    expect(summary).toContain('### statelet replay: 1 same, 1 divergence\n');
    expect(summary).toContain('### statelet replay: 1 same\n');
    expect(summary).toMatch(/\| changed \| divergence \| 1 \| record \d+ of turn \d+: different \|/);
  });
});

describe('markdown', () => {
  it('has a row for each log that is not the same, and no other cell or mark', () => {
    const text = reported('markdown', [hostile]);
    const [row = ''] = text.match(/^\| logs.*/gm)!;
    expect(row).toMatch(/ \| divergence \| 1 \| record 5 of turn 0: different \|$/);
    expect(row.match(/\|/g)).toHaveLength(5);
    expect(row).not.toMatch(/[<>`[\]@*_\u202e]/);
    expect(row).not.toContain('://');
  });

  it('fences the details with more backticks than they have', () => {
    const log = 'a ````` b';
    expect(reported('markdown', [{ ...hostile, log }])).toMatch(/\n``````text\n[^]*\n``````\n/);
  });
});

it('another form is refused with the list of them', () => {
  const { code, stderr } = replay('xml', 'same');
  expect(stderr).toContain('--output is text|json|junit|markdown|html|github, not "xml"');
  expect(code).toBe(2);
});

describe('html', () => {
  const elementsIn = (page: string): { name: string; text: string }[] => {
    const found: { name: string; text: string }[] = [];
    const parser = new SaxesParser();
    parser.on('opentag', ({ name }) => found.push({ name, text: '' }));
    parser.on('text', (content) => void (found.at(-1) && (found.at(-1)!.text += content)));
    const whole = page.replace('<!doctype html>', '').replaceAll(/<meta [^>]*>/g, '');
    parser.write(whole).close();
    return found;
  };

  it('has a row for each log, and each first difference', () => {
    const { code, stdout } = replay('html', '.', 'nowhere');
    const elements = elementsIn(stdout);
    expect(elements.filter(({ name }) => name === 'tr')).toHaveLength(5);
    expect(elements.find(({ name }) => name === 'h1')!.text.trim()).toBe(
      'statelet replay: 2 same, 1 divergence, 1 invalid',
    );
    expect(elements.filter(({ name }) => name === 'pre').map(({ text }) => text)).toEqual([
      expect.stringContaining('first difference at record'),
      expect.stringContaining('nowhere'),
    ]);
    expect(code).toBe(1);
  });

  it('is one page without scripts or sources, whatever a log says', () => {
    const page = reported('html', [hostile]);
    const names = new Set(elementsIn(page).map(({ name }) => name));
    const expected = 'html head title style body main h1 table caption thead tr th tbody td section h2 pre';
    expect([...names].toSorted()).toEqual(expected.split(' ').toSorted());
    expect(page).not.toMatch(/ (src|href|on\w+)=/);
    expect(page).toContain("default-src 'none'");
  });
});
