/** `statelet logs POD`: the output of a container, as `kubectl logs` prints it. */
import { pipeline } from 'node:stream/promises';
import { parseDuration } from '../../machines/model/values/time.ts';
import { ask, containerOf, LocalError, type LocalOptions, podNamed, socketPath } from '../local/node-client.ts';

export interface LogsOptions extends LocalOptions {
  readonly container?: string;
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly timestamps?: boolean;
  readonly tail?: string;
  /** As Go writes durations: `90s`, `1h30m`. */
  readonly since?: string;
  /** RFC 3339. */
  readonly sinceTime?: string;
  readonly limitBytes?: string;
}

const NANOSECONDS = 1_000_000_000n;

/** Whole seconds, rounded up. */
function seconds(since: string): string {
  const parsed = parseDuration(since);
  if (parsed.error === undefined) return String((parsed.value + NANOSECONDS - 1n) / NANOSECONDS);
  throw new LocalError(`error: --since is a duration such as 90s or 1h30m: ${parsed.error}`);
}

/** A whole number, or kubectl's error. */
function integer(flag: string, text: string): string {
  if (/^[+-]?\d+$/.test(text)) return text;
  const why = `strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`;
  throw new LocalError(`error: invalid argument ${JSON.stringify(text)} for "--${flag}" flag: ${why}`);
}

/** As kubectl: a negative number means all lines. */
const tailOf = (lines: string | undefined): Record<string, string> =>
  lines === undefined || integer('tail', lines).startsWith('-') ? {} : { tailLines: lines };

/** Writes to `out` until the log ends. @throws LocalError */
export async function logsCommand(pod: string, options: LogsOptions, out: NodeJS.WritableStream): Promise<void> {
  const socket = await socketPath(options);
  const found = await podNamed(socket, options.namespace, pod);
  const { metadata } = found;
  const container = containerOf(found, options.container);
  const query = new URLSearchParams({
    ...(options.follow ? { follow: 'true' } : {}),
    ...(options.previous ? { previous: 'true' } : {}),
    ...(options.timestamps ? { timestamps: 'true' } : {}),
    ...tailOf(options.tail),
    ...(options.since === undefined ? {} : { sinceSeconds: seconds(options.since) }),
    ...(options.sinceTime === undefined ? {} : { sinceTime: options.sinceTime }),
    ...(options.limitBytes === undefined ? {} : { limitBytes: integer('limit-bytes', options.limitBytes) }),
  });
  const path = ['containerLogs', metadata.namespace, metadata.name, container].map(encodeURIComponent).join('/');
  await pipeline(await ask(socket, `/${path}?${query.toString()}`), out, { end: false });
}
