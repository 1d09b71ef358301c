/** Log lines for people and collectors: both formats, both streams, and the lines that a verbosity omits. */
import { expect, it } from 'vitest';
import { logPorts, logRecords } from '../../../src/actors/log/logger.ts';
import type { KernelRecord, LogLevel } from '../../../src/kernel/records.ts';
import type { LogForm } from '../../../src/machines/model/operations/host.ts';

const AT_MS = 1_700_000_000_000;
const logged = (level: LogLevel, text: string, fields: object = {}) =>
  ({ k: 'log', n: 1, at: 'kubelet/pods/pod-1', level, text, fields }) as unknown as KernelRecord;
const LINES = [
  { k: 'timer', n: 0, t: AT_MS } as unknown as KernelRecord,
  logged('info', 'Started kubelet', { version: 'v1' }),
  logged('error', 'Cannot do it', { err: 'no' }),
  logged('debug', 'Observed', {}),
];

function printed(form: LogForm, change?: (printer: ReturnType<typeof logRecords>) => void) {
  const [out, err]: [string[], string[]] = [[], []];
  const linesOf = (text: string) => text.split(/(?<=\n)/);
  const streams = {
    out: (lines: string) => void out.push(...linesOf(lines)),
    err: (lines: string) => void err.push(...linesOf(lines)),
  };
  const printer = logRecords({ ...form, streams });
  change?.(printer);
  printer(LINES);
  return { out, err };
}

it('text is klog text, on stderr', () => {
  const { out, err } = printed({ verbosity: 0 });
  expect(out).toEqual([]);
  expect(err).toEqual([
    expect.stringMatching(/^I\d{4} [\d:.]+ +\d+ pods\/pod-1\] "Started kubelet" version="v1"\n$/),
    expect.stringMatching(/^E\d{4} [\d:.]+ +\d+ pods\/pod-1\] "Cannot do it" err="no"\n$/),
  ]);
});

it('text shows what controls a terminal, of one line and of several', () => {
  let err = '';
  const printer = logRecords({ verbosity: 0, streams: { out: () => {}, err: (text) => void (err += text) } });
  printer([
    logged('info', 'Event', { message: 'a\u001b[2J\u009b\u202eb', output: 'one\n\u001b]0;x\u0007\r\u009btwo' }),
  ]);
  expect(err).toContain('"Event" message="a\\u001b[2J\\u009b\\u202eb" output=<\n\tone\n');
  expect(err).toContain('\n\t\\u001b]0;x\\u0007\\u000d\\u009btwo\n >\n');
});

it('JSON has the fields of Kubernetes, with a verbosity where it is no error', () => {
  const [started, failed] = printed({ verbosity: 0, format: 'json' }).err.map((line) => JSON.parse(line));
  expect(started).toMatchObject({ ts: AT_MS, caller: 'pods/pod-1', msg: 'Started kubelet', v: 0, version: 'v1' });
  expect(failed).toMatchObject({ ts: AT_MS, msg: 'Cannot do it', err: 'no' });
  expect(failed).not.toHaveProperty('v');
});

it('JSON has no line of text for what its fields say', () => {
  let err = '';
  const printer = logRecords({
    verbosity: 0,
    format: 'json',
    streams: { out: () => {}, err: (text) => (err += text) },
  });
  printer([logged('error', 'command failed', { err: 'no', klog: '"command failed" err="no"' })]);
  expect(JSON.parse(err)).toMatchObject({ msg: 'command failed', err: 'no' });
  expect(JSON.parse(err)).not.toHaveProperty('klog');
});

it('lines after the journal has another form are printed in it', () => {
  const err: string[] = [];
  const printer = logRecords({ verbosity: 0, streams: { out: () => {}, err: (text) => void err.push(text) } });
  const set = { k: 'effect', name: 'host.setLogVerbosity', input: { verbosity: 0, format: 'json' } };
  printer([logged('info', 'before'), set as unknown as KernelRecord, logged('info', 'after')]);
  const [before = '', after = ''] = err.join('').trimEnd().split('\n');
  expect(before).toMatch(/^I\d{4} .*"before"$/);
  expect(JSON.parse(after)).toMatchObject({ msg: 'after' });
});

it('streams are split where that is asked for', () => {
  const { out, err } = printed({ verbosity: 4, splitStream: true });
  expect(out.map((line) => line.split('] ')[1])).toEqual(['"Started kubelet" version="v1"\n', '"Observed"\n']);
  expect(err).toHaveLength(1);
});

it('the configuration of a running node changes all of it, and a verbosity alone nothing else', async () => {
  const call = { id: 0, resume: false, signal: new AbortController().signal, emit: () => {} };
  const { out, err } = printed({ verbosity: 0 }, (printer) => {
    void logPorts(printer)['host.setLogVerbosity']({
      ...call,
      input: { verbosity: 0, format: 'json', splitStream: true },
    });
    printer.setVerbosity(4);
  });
  expect(out.map((line) => JSON.parse(line).msg)).toEqual(['Started kubelet', 'Observed']);
  expect(err).toHaveLength(1);
});
