/** `statelet logs POD`: what a container said, as `kubectl logs` prints it. */
import { pipeline } from 'node:stream/promises';
import { ask, LocalError, type LocalOptions, podNamed, socketPath } from '../local/node-client.ts';

export interface LogsOptions extends LocalOptions {
  readonly container?: string;
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly timestamps?: boolean;
  readonly tail?: string;
  /** Go duration in whole seconds, such as `90s` or `5m`. */
  readonly since?: string;
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };

function seconds(since: string): string {
  const [, amount, unit] = /^(\d+)([smh])$/.exec(since) ?? [];
  if (amount === undefined || unit === undefined) {
    throw new LocalError(`--since is a number with s, m or h, such as 90s, not ${JSON.stringify(since)}`);
  }
  return String(Number(amount) * UNITS[unit]!);
}

/** Writes to `out` until the log ends. @throws LocalError */
export async function logsCommand(pod: string, options: LogsOptions, out: NodeJS.WritableStream): Promise<void> {
  const socket = socketPath(options.rootDir);
  const { metadata, spec } = await podNamed(socket, options.namespace, pod);
  const container = options.container ?? spec.containers[0]?.name ?? '';
  const query = new URLSearchParams({
    ...(options.follow ? { follow: 'true' } : {}),
    ...(options.previous ? { previous: 'true' } : {}),
    ...(options.timestamps ? { timestamps: 'true' } : {}),
    ...(options.tail === undefined ? {} : { tailLines: options.tail }),
    ...(options.since === undefined ? {} : { sinceSeconds: seconds(options.since) }),
  });
  const path = ['containerLogs', metadata.namespace, metadata.name, container].map(encodeURIComponent).join('/');
  await pipeline(await ask(socket, `/${path}?${query.toString()}`), out, { end: false });
}
