/**
 * The durations of operations: number and durations by name, and the slowest single requests. Streams are left out,
 * because actors do not wait for their end. Pure.
 */
import { duration } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import { actorName, type Operation, type Story } from './story.ts';

/** Single requests that are listed; longer lists do not help a reader. */
const SLOWEST_MAX = 15;

interface BlamedOperation {
  readonly name: string;
  readonly count: number;
  readonly totalMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly failures: number;
  readonly cancelled: number;
  /** Requests without an answer at the end of the journal; they count with the time until then. */
  readonly open: number;
}

interface SlowRequest {
  readonly name: string;
  /** Address of the request. */
  readonly at: string;
  readonly n: number;
  readonly atMs: number;
  readonly tookMs: number;
  readonly end: 'done' | 'failed' | 'cancelled' | 'open';
  readonly error?: string;
}

export interface Blame {
  readonly incarnation: string;
  readonly operations: readonly BlamedOperation[];
  readonly slowest: readonly SlowRequest[];
}

export function blame(story: Story): Blame {
  const answered = [...story.operations.values()].filter((operation) => operation.class !== 'stream');
  const took = (operation: Operation): number => (operation.ended ?? story.ended) - operation.began;
  const groups = Map.groupBy(answered, ({ name }) => name);
  const operations = [...groups].map(([name, group]) => blamed(name, group, group.map(took)));
  const slowest = answered.toSorted((a, b) => took(b) - took(a) || a.n - b.n).slice(0, SLOWEST_MAX);
  return {
    incarnation: story.header.incarnation,
    operations: operations.sort((a, b) => b.totalMs - a.totalMs || (a.name < b.name ? -1 : 1)),
    slowest: slowest.map((operation) => ({
      name: operation.name,
      at: operation.at,
      n: operation.n,
      atMs: operation.began - story.started,
      tookMs: took(operation),
      end: operation.end ?? 'open',
      ...(operation.error === undefined ? {} : { error: operation.error }),
    })),
  };
}

function blamed(name: string, group: readonly Operation[], times: readonly number[]): BlamedOperation {
  const sorted = times.toSorted((a, b) => a - b);
  const ended = (end: Operation['end']): number => group.filter((operation) => operation.end === end).length;
  return {
    name,
    count: group.length,
    totalMs: sorted.reduce((sum, each) => sum + each, 0),
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    maxMs: sorted.at(-1) ?? 0,
    failures: ended('failed'),
    cancelled: ended('cancelled'),
    open: ended(undefined),
  };
}

/** The nearest-rank percentile: always a measured time, never an interpolated one. */
const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;

export function describeBlame(report: Blame, story: Story): string {
  const right = (title: string) => ({ title, align: 'right' }) as const;
  const count = (value: number): string => (value === 0 ? '' : String(value));
  const byName = table(
    [...['TOTAL', 'COUNT', 'P50', 'P99', 'MAX', 'FAILED', 'CANCELLED', 'OPEN'].map(right), { title: 'OPERATION' }],
    report.operations.map(({ name, count: times, totalMs, p50Ms, p99Ms, maxMs, failures, cancelled, open }) => [
      duration(totalMs),
      String(times),
      duration(p50Ms),
      duration(p99Ms),
      duration(maxMs),
      count(failures),
      count(cancelled),
      count(open),
      name,
    ]),
  );
  const single = table(
    [right('TOOK'), right('AT'), { title: 'OPERATION' }, { title: 'ASKED BY' }, { title: 'END' }],
    report.slowest.map(({ tookMs, atMs, name, at, end, error }) => [
      duration(tookMs),
      `+${duration(atMs)}`,
      name,
      actorName(at.slice(0, at.lastIndexOf('/')), story),
      error === undefined ? end : `${end}: ${error}`,
    ]),
  );
  return `${byName}\nThe slowest requests\n\n${single}`;
}
