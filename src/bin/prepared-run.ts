/**
 * Prepares a daemon from the arguments of `run` and `run-once`, or ends the process before there is one.
 *
 * What cannot be read as a command line ends here, before there is a journal, with the kubelet's own words; everything
 * later ends in the machines.
 */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { printLine } from '../actors/log/logger.ts';
import type { LogLevel } from '../kernel/records.ts';
import { hintForRefusal } from '../machines/configuration/flags/flag-table.ts';
import { type CommandLine, commandFailed, logEntries } from '../machines/configuration/index.ts';
import { nodeNameOf } from '../machines/startup/run.ts';
import type { DaemonOptions } from './daemon.ts';
import { effectiveConfiguration, parseKubeletArguments } from './effective-configuration.ts';
import { type StateletFlags, splitArguments } from './statelet-flags.ts';

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
