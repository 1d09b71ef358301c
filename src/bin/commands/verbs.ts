/** The table of verbs for journals and running daemons. Each is loaded only when it is called. */
import { Command, CommanderError } from 'commander';
import { exitCodes } from '../exit-codes.ts';
import { STATELET_VERSION } from '../version.ts';
import { addJournalVerbs } from './journal-verbs.ts';
import { addLocalVerbs } from './local-verbs.ts';

export async function callVerb(argv: readonly string[]): Promise<number> {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => endUnwritten(error, argv[0] ?? ''));
  let code = 0;
  const isVersion = ['--version', '-V'].includes(argv[0] ?? '');
  const version = isVersion ? (await import('../version.ts')).buildVersion() : STATELET_VERSION;
  const program = programOf((given) => void (code = given), version);
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown;
    return thrown.exitCode === 0 ? 0 : exitCodes.usage;
  }
  return code;
}

/** `ended` gets the exit code of the verb that was called. */
export function programOf(ended: (code: number) => void, version = STATELET_VERSION): Command {
  const program = new Command('statelet')
    .description('A Kubernetes node agent that remembers why it did each thing')
    .version(version)
    .exitOverride()
    .showHelpAfterError()
    .addHelpText('after', '\nstatelet VERB --help describes each verb.');
  addDaemonVerbs(program);
  addLocalVerbs(program, ended);
  addJournalVerbs(program, ended);
  return program;
}

/** Verbs whose exit code is their result: a closed pipe must not turn it into "nothing differs". */
const ANSWERS_BY_CODE: readonly string[] = ['replay', 'verify', 'diff', 'expect', 'coverage'];

/** A reader that closes the pipe has read enough, like `head`; any other failure loses the result. */
function endUnwritten(error: NodeJS.ErrnoException, verb: string): void {
  const isPipe = error.code === 'EPIPE';
  if (!isPipe) process.stderr.write(`statelet ${verb}: the output could not be written: ${error.message}\n`);
  process.exit(isPipe && !ANSWERS_BY_CODE.includes(verb) ? exitCodes.same : exitCodes.couldNotTest);
}

/** Listed only: they have the command line of a kubelet, and parsers of their own. */
function addDaemonVerbs(program: Command): void {
  program.commandsGroup('Run a node:');
  program.command('run').usage('[kubelet flags]').description("start the node agent, with a kubelet's flags");
  program
    .command('run-once')
    .usage('[kubelet flags]')
    .description('run the static pods once, print their results, and end');
  program
    .command('config')
    .usage('print [kubelet flags]')
    .description('print the effective configuration and the origin of each value');
}
