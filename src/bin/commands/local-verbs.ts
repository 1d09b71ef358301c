/** The verbs that call the daemon of this machine: get, describe, logs, exec. */
import type { Command } from 'commander';
import { exitCodes } from '../exit-codes.ts';
import { LocalError } from '../local/node-client.ts';
import { printable } from '../printable.ts';
import type { ExecOptions, GetOptions, LogsOptions } from './local.ts';

type Ended = (code: number) => void;

/** Runs a verb; a refusal is one line and exit code 1. */
async function guarded(ended: Ended, run: () => Promise<string | number>): Promise<void> {
  try {
    const result = await run();
    if (typeof result === 'string') process.stdout.write(result);
    ended(typeof result === 'number' ? result : exitCodes.same);
  } catch (thrown) {
    if (!(thrown instanceof LocalError)) throw thrown;
    process.stderr.write(printable(`${thrown.message}\n`));
    ended(1);
  }
}

export function addLocalVerbs(program: Command, ended: Ended): void {
  program.commandsGroup('Ask the daemon of this machine:');
  const verb = (name: string, description: string): Command =>
    program
      .command(name)
      .description(description)
      .option('--root-dir <folder>', "the daemon's --root-dir (default: the first usual place with a running daemon)")
      .option('--data-dir <folder>', "the daemon's --data-dir, if it was started with one")
      .option('-n, --namespace <name>', 'namespace of the pod', 'default');
  verb('get', 'list the pods of this node')
    .argument('<resource>', 'pods, or pod/NAME')
    .argument('[name]', 'name of one pod; a static pod may be named without its node')
    .option('-o, --output <form>', 'wide, json, yaml or name')
    .option('-A, --all-namespaces', 'pods of every namespace')
    .action(async (resource: string, name: string | undefined, options: GetOptions) =>
      guarded(ended, async () => (await import('./local.ts')).getCommand(resource, name, options)),
    );
  verb('describe', 'show everything about pods of this node')
    .argument('<resource>', 'pods, or pod/NAME')
    .argument('[name]', 'name of one pod; a static pod may be named without its node')
    .action(async (resource: string, name: string | undefined, options: GetOptions) =>
      guarded(ended, async () => (await import('./local.ts')).describeCommand(resource, name, options)),
    );
  addStreams(verb, ended);
}

function addStreams(verb: (name: string, description: string) => Command, ended: Ended): void {
  verb('logs', 'print the log of a container of this node')
    .argument('<pod>', 'name of the pod')
    .option('-c, --container <name>', 'which container (default: the first)')
    .option('-f, --follow', 'print new lines as they are written')
    .option('-p, --previous', 'the log of the previous instance')
    .option('--timestamps', 'begin each line with its time')
    .option('--tail <lines>', 'only this many lines from the end')
    .option('--since <age>', 'only lines newer than this age, such as 90s or 1h30m')
    .option('--since-time <time>', 'only lines after this time, such as 2026-01-02T03:04:05Z')
    .option('--limit-bytes <bytes>', 'at most this many bytes')
    .action(async (pod: string, options: LogsOptions) =>
      guarded(ended, async () => {
        await (await import('./local.ts')).logsCommand(pod, options, process.stdout);
        return exitCodes.same;
      }),
    );
  verb('exec', 'run a command in a container of this node: statelet exec POD -- COMMAND')
    .argument('<pod>', 'name of the pod')
    .argument('[command...]', 'the command and its arguments, after --')
    .option('-c, --container <name>', 'which container (default: the first)')
    .option('-i, --stdin', 'connect standard input')
    .option('-t, --tty', 'give the command a terminal')
    .action(async (pod: string, command: string[], options: ExecOptions) =>
      guarded(ended, async () => (await import('./local.ts')).execCommand(pod, command, options)),
    );
}
