/**
 * `statelet run`: the arguments of a kubelet, and a daemon that runs until a signal.
 *
 * What cannot be read as a command line ends here, before there is a journal, with the kubelet's own words; everything
 * later ends in the machines.
 */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { printLine } from '../../actors/log/logger.ts';
import { type CommandLine, commandFailed, parseCommandLine } from '../../machines/startup/configuration/index.ts';
import { nodeNameOf } from '../../machines/startup/run.ts';
import { runDaemon } from '../daemon.ts';
import { maskedArguments } from '../masked-arguments.ts';
import { OWN_FLAGS_HELP, splitArguments } from '../own-flags.ts';
import { KUBELET_VERSION, NODE_VERSION } from '../version.ts';

/** Charts of the machines, drawn when the project is built. */
const DIAGRAMS_DIR = join(import.meta.dirname, '../../../docs/diagrams');

export async function run(given: readonly string[]): Promise<number> {
  const split = splitArguments(given);
  if ('error' in split) return refuse(split.error, null);
  const dataDir = split.own.dataDir === null ? null : resolve(split.own.dataDir);
  const kubelet = maskedArguments(split.kubelet);
  const argv = dataDir === null ? kubelet : [`--root-dir=${dataDir}`, ...kubelet];
  const parsed = parseCommandLine(argv, { version: KUBELET_VERSION, raw: NODE_VERSION });
  for (const note of parsed.notes) process.stderr.write(`${note}\n`);
  if (parsed.kind === 'error') return refuse(parsed.error, parsed.hint);
  if (parsed.kind !== 'run') {
    if (parsed.text !== '') process.stdout.write(`${parsed.text}\n${parsed.kind === 'help' ? OWN_FLAGS_HELP : ''}`);
    return 0;
  }
  const rootDir = resolve(parsed.flags.rootDir);
  return runDaemon({
    argv,
    rootDir,
    dataDir,
    journalDir: resolve(split.own.journalDir ?? join(rootDir, 'journal')),
    visualizerPort: split.own.visualizerPort,
    nodeName: nodeNameOf(parsed.flags.hostnameOverride, hostname()),
    logFormat: parsed.given['logging-format'] === 'json' ? 'json' : 'text',
    verbosity: verbosityOf(parsed),
    diagramsDir: DIAGRAMS_DIR,
  });
}

function verbosityOf(parsed: Extract<CommandLine, { kind: 'run' }>): number {
  const given = Number(parsed.given['v'] ?? 0);
  return Number.isFinite(given) ? given : 0;
}

function refuse(error: string, hint: string | null): number {
  const { exit, lines } = commandFailed(error);
  printLine('error', 'statelet', error, { klog: lines.join('\n') });
  if (hint) process.stderr.write(`${hint}\n`);
  return exit;
}
