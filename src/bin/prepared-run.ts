/**
 * Prepares a daemon from the arguments of `run` and `run-once`, or ends the process before there is one. Also the flags
 * of Statelet itself.
 *
 * An invalid command line ends the process here, before there is a journal, with the kubelet's error text. Later errors
 * are handled by the machines.
 */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { printLine } from '../actors/log/logger.ts';
import type { LogLevel } from '../kernel/records.ts';
import { hintForRefusal } from '../machines/configuration/flags/flag-table.ts';
import type { CommandLine } from '../machines/configuration/flags/flags.ts';
import { commandFailed, logEntries } from '../machines/configuration/resolve.ts';
import { nodeNameOf } from '../machines/startup/run.ts';
import type { DaemonOptions } from './daemon.ts';
import { effectiveConfiguration, parseKubeletArguments } from './effective-configuration.ts';

export type PreparedRun =
  | { readonly exitCode: number }
  | { readonly options: DaemonOptions; readonly own: StateletFlags };

/** Reads the arguments; prints the output of `--help`, `--version`, `--validate` and of errors. */
export async function prepareRun(given: readonly string[], ownHelp: string): Promise<PreparedRun> {
  const split = splitArguments(given);
  if ('error' in split) return { exitCode: refuse(split.error, null) };
  const dataDir = split.own.dataDir === null ? null : resolve(split.own.dataDir);
  const { kubelet } = split;
  const argv = dataDir === null ? kubelet : [`--root-dir=${dataDir}`, `--cert-dir=${join(dataDir, 'pki')}`, ...kubelet];
  const parsed = parseKubeletArguments(argv);
  for (const note of parsed.notes) process.stderr.write(`${note}\n`);
  if (parsed.kind === 'error') return { exitCode: refuse(parsed.error, parsed.hint) };
  if (parsed.kind !== 'run') {
    if (parsed.text !== '') process.stdout.write(`${parsed.text}\n${parsed.kind === 'help' ? ownHelp : ''}`);
    return { exitCode: 0 };
  }
  if (split.own.validate) return { exitCode: await validate(parsed) };
  const rootDir = resolve(parsed.flags.rootDir);
  const options: DaemonOptions = {
    argv,
    rootDir,
    dataDir,
    journalDir: resolve(split.own.journalDir ?? join(rootDir, 'journal')),
    rememberPods: split.own.rememberPods,
    journalPlain: split.own.journalPlain,
    visualizerPort: split.own.visualizerPort,
    nodeName: nodeNameOf(parsed.flags.hostnameOverride, hostname()),
    logFormat: parsed.given['logging-format'] === 'json' ? 'json' : 'text',
    verbosity: verbosityOf(parsed),
  };
  return { options, own: split.own };
}

/** `--validate`: checks whether the node would start, without changing a file or calling the runtime. */
async function validate(parsed: Extract<CommandLine, { kind: 'run' }>): Promise<number> {
  const effective = await effectiveConfiguration(parsed);
  printLines('warn', effective.warnings);
  if (effective.kind === 'refused') {
    printLines('error', effective.lines);
    const hint = hintForRefusal(effective.lines.join('\n'));
    if (hint !== null) process.stderr.write(`${hint}\n`);
    return 1;
  }
  process.stdout.write('ok\n');
  return 0;
}

function verbosityOf(parsed: Extract<CommandLine, { kind: 'run' }>): number {
  const given = Number(parsed.given['v'] ?? 0);
  return Number.isFinite(given) ? given : 0;
}

export function refuse(error: string, hint: string | null): number {
  const { exit, lines } = commandFailed(error);
  printLines('error', lines);
  if (hint) process.stderr.write(`${hint}\n`);
  return exit;
}

/** Prints lines in upstream's form, each entry of the log under one klog header. */
export function printLines(level: LogLevel, lines: readonly string[]): void {
  for (const { text, klog } of logEntries(lines)) printLine(level, 'statelet', text, { klog });
}

/**
 * The few flags of `statelet run` that no kubelet has. They are taken out of the arguments before the kubelet's own
 * parser sees them, in either spelling (`--journal-dir=X`, `--journal-dir X`).
 */
interface StateletFlags {
  /** Folder for everything that a kubelet writes below `/var`, for a node that may not write there. */
  readonly dataDir: string | null;
  /** Default: `<root-dir>/journal`. */
  readonly journalDir: string | null;
  /** Whether values of variables and headers are written into the journal in plain text. */
  readonly journalPlain: boolean;
  /** Loopback port of the visualizer; `off` for none. */
  readonly visualizerPort: number | 'off';
  /** Whether pods of the API server start after a reboot while it is unreachable. */
  readonly rememberPods: boolean;
  /** Only check command line and configuration. */
  readonly validate: boolean;
}

const DEFAULT_VISUALIZER_PORT = 10_247;

const SWITCHES: ReadonlySet<string> = new Set(['--journal-plain', '--validate']);
const NAMES = ['data-dir', 'journal-dir', 'remember-pods', 'visualizer-port'] as const;

export const STATELET_FLAGS_HELP = `
Statelet flags:

      --data-dir string          Folder for all that a kubelet writes below /var
      --journal-dir string       Folder of the journal (default "<root-dir>/journal")
      --journal-plain            Write variables, commands and headers of pods into the journal as they are
      --remember-pods string     "false": start no pod of the API server while that is away (default "true")
      --visualizer-port string   Loopback port of the visualizer, or "off" (default ${DEFAULT_VISUALIZER_PORT})
      --validate                 Check command line and configuration, change nothing, and end
`;

export type SplitArguments =
  | { readonly own: StateletFlags; readonly kubelet: readonly string[] }
  | { readonly error: string };

export function splitArguments(argv: readonly string[]): SplitArguments {
  const values = new Map<string, string>();
  const kubelet: string[] = [];
  const remaining = [...argv];
  for (let argument = remaining.shift(); argument !== undefined; argument = remaining.shift()) {
    if (SWITCHES.has(argument)) {
      values.set(argument.slice(2), 'true');
      continue;
    }
    const given = argument;
    const name = NAMES.find((known) => given === `--${known}` || given.startsWith(`--${known}=`));
    if (!name) {
      kubelet.push(given);
      continue;
    }
    const value = given.includes('=') ? given.slice(given.indexOf('=') + 1) : remaining.shift();
    if (value !== undefined) values.set(name, value);
    else return { error: `flag needs an argument: --${name}` };
  }
  const port = visualizerPort(values.get('visualizer-port'));
  if (port === null) {
    return { error: `invalid argument "${values.get('visualizer-port')}" for "--visualizer-port": a port, or "off"` };
  }
  const remember = values.get('remember-pods') ?? 'true';
  if (remember !== 'true' && remember !== 'false') {
    return { error: `invalid argument "${remember}" for "--remember-pods": true, or false` };
  }
  const own = {
    rememberPods: remember === 'true',
    journalPlain: values.has('journal-plain'),
    dataDir: values.get('data-dir') ?? null,
    journalDir: values.get('journal-dir') ?? null,
  };
  return { own: { ...own, visualizerPort: port, validate: values.has('validate') }, kubelet };
}

function visualizerPort(value: string | undefined): number | 'off' | null {
  if (value === undefined) return DEFAULT_VISUALIZER_PORT;
  if (value === 'off') return value;
  return /^\d+$/.test(value) && Number(value) <= 65_535 ? Number(value) : null;
}
