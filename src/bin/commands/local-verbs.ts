/** The verbs that call the daemon of this machine: get, describe, logs, exec. */
import type { Command } from 'commander';
import { exitCodes } from '../exit-codes.ts';
import { LocalError } from '../local/node-client.ts';
import { printable } from '../printable.ts';
import type { ExecOptions } from './exec.ts';
import type { GetOptions } from './get.ts';
import type { LogsOptions } from './logs.ts';

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
      .option('--root-dir <folder>', "the daemon's --root-dir (default: the first of the usual places that answers)")
      .option('--data-dir <folder>', "the daemon's --data-dir, for a node that was started with it")
      .option('-n, --namespace <name>', 'namespace of the pod', 'default');
  verb('get', 'list the pods of this node')
    .argument('<resource>', 'pods, or pod/NAME')
    .argument('[name]', 'of one pod; a static one may be named without its node')
    .option('-o, --output <form>', 'wide, json, yaml or name')
    .option('-A, --all-namespaces', 'pods of every namespace')
    .action(async (resource: string, name: string | undefined, options: GetOptions) =>
      guarded(ended, async () => (await import('./get.ts')).getCommand(resource, name, options)),
    );
  verb('describe', 'show everything about pods of this node')
    .argument('<resource>', 'pods, or pod/NAME')
    .argument('[name]', 'of one pod; a static one may be named without its node')
    .action(async (resource: string, name: string | undefined, options: GetOptions) =>
      guarded(ended, async () => (await import('./describe.ts')).describeCommand(resource, name, options)),
    );
  addStreams(verb, ended);
}

function addStreams(verb: (name: string, description: string) => Command, ended: Ended): void {
  verb('logs', 'print what a container of this node said')
    .argument('<pod>', 'its name')
    .option('-c, --container <name>', 'which container (default: the first)')
    .option('-f, --follow', 'go on as it says more')
    .option('-p, --previous', 'what the instance before this one said')
    .option('--timestamps', 'with the time of each line')
    .option('--tail <lines>', 'only the last ones')
    .option('--since <age>', 'only what is newer, such as 90s or 1h30m')
    .option('--since-time <time>', 'only what is newer than a time, such as 2026-01-02T03:04:05Z')
    .option('--limit-bytes <bytes>', 'no more than that')
    .action(async (pod: string, options: LogsOptions) =>
      guarded(ended, async () => {
        await (await import('./logs.ts')).logsCommand(pod, options, process.stdout);
        return exitCodes.same;
      }),
    );
  verb('exec', 'run a command in a container of this node: statelet exec POD -- COMMAND')
    .argument('<pod>', 'its name')
    .argument('[command...]', 'behind --')
    .option('-c, --container <name>', 'which container (default: the first)')
    .option('-i, --stdin', 'pass what is typed')
    .option('-t, --tty', 'the command has a terminal')
    .action(async (pod: string, command: string[], options: ExecOptions) =>
      guarded(ended, async () => (await import('./exec.ts')).execCommand(pod, command, options)),
    );
}
