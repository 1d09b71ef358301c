/**
 * `statelet run`: the arguments of a kubelet, and a daemon that runs until a signal.
 *
 * `statelet run-once`: starts the static pods, waits until each is ready or has ended, prints the results, and exits.
 * The pods stay with the runtime. stdout has a table, or a list with `--format=json`; the exit code is 0 if every pod
 * became ready or succeeded, else 1.
 */
import type { KubeletMachineOutput, PodResult } from '../../machines/startup/context/types.ts';
import { RUN_ONCE_RETRIES, RUN_ONCE_RETRIES_MAX } from '../../machines/startup/run-once.ts';
import { duration } from '../../visualizer/words.ts';
import { runDaemon } from '../daemon.ts';
import { prepareRun, refuse, STATELET_FLAGS_HELP } from '../prepared-run.ts';
import { table } from '../printable.ts';
import { endSoon } from '../process-end.ts';

export async function run(given: readonly string[]): Promise<number> {
  const prepared = await prepareRun(given, STATELET_FLAGS_HELP);
  return 'exitCode' in prepared ? prepared.exitCode : endSoon(await runDaemon(prepared.options));
}

const HELP = `${STATELET_FLAGS_HELP}
Flags of run-once:

      --format string            "text" or "json" (default "text")
      --retries int              Checks of a pod after the first; the waits double from 1s (default ${RUN_ONCE_RETRIES})
`;

interface OnceFlags {
  readonly format: 'text' | 'json';
  readonly retries: number;
}

type SplitOnce = { readonly once: OnceFlags; readonly rest: readonly string[] } | { readonly error: string };

export async function runOnce(given: readonly string[]): Promise<number> {
  const split = splitOnce(given);
  if ('error' in split) return refuse(split.error, null);
  const hasPort = split.rest.some((argument) => argument.startsWith('--visualizer-port'));
  const prepared = await prepareRun(hasPort ? split.rest : ['--visualizer-port=off', ...split.rest], HELP);
  if ('exitCode' in prepared) return prepared.exitCode;
  const { format, retries } = split.once;
  return endSoon(
    await runDaemon({
      ...prepared.options,
      runOnce: { retries },
      ended: (output) => print((output as KubeletMachineOutput).podResults, format),
    }),
  );
}

function print(results: readonly PodResult[] | null | undefined, format: OnceFlags['format']): void {
  if (!results) return;
  process.stdout.write(format === 'json' ? `${JSON.stringify(results, null, 2)}\n` : textOf(results));
}

export function textOf(results: readonly PodResult[]): string {
  if (results.length === 0) return 'no pods\n';
  const columns = [
    { title: 'POD' },
    { title: 'RESULT' },
    { title: 'RESTARTS', align: 'right' },
    { title: 'TOOK', align: 'right' },
    { title: 'MESSAGE' },
  ] as const;
  const rows = results.map(({ namespace, name, result, containers, tookMs, message }) => {
    const restarts = containers.reduce((sum, container) => sum + container.restarts, 0);
    return [`${namespace}/${name}`, result, String(restarts), duration(tookMs), message];
  });
  return table(columns, rows);
}

function splitOnce(given: readonly string[]): SplitOnce {
  const values = new Map<string, string>();
  const rest: string[] = [];
  const remaining = [...given];
  for (let argument = remaining.shift(); argument !== undefined; argument = remaining.shift()) {
    const [, name, inline] = /^--(format|retries)(?:=(.*))?$/s.exec(argument) ?? [];
    const value = name === undefined ? undefined : (inline ?? remaining.shift());
    if (name === undefined) rest.push(argument);
    else if (value !== undefined) values.set(name, value);
    else return { error: `flag needs an argument: --${name}` };
  }
  const format = values.get('format') ?? 'text';
  const retries = values.get('retries') ?? String(RUN_ONCE_RETRIES);
  if (format !== 'text' && format !== 'json') {
    return { error: `invalid argument "${format}" for "--format": text or json` };
  }
  if (!/^\d{1,3}$/.test(retries) || Number(retries) > RUN_ONCE_RETRIES_MAX) {
    return { error: `invalid argument "${retries}" for "--retries": a number from 0 to ${RUN_ONCE_RETRIES_MAX}` };
  }
  return { once: { format, retries: Number(retries) }, rest };
}
