/** The table of verbs. Each is loaded only when it is called, so that `run` pays for nothing else. */
import { Command, CommanderError } from 'commander';
import { exitCodes } from '../exit-codes.ts';
import { STATELET_VERSION } from '../version.ts';

export async function main(argv: readonly string[]): Promise<number> {
  // The daemon's arguments are a kubelet's; they must not meet another parser.
  if (argv[0] === 'run') return (await import('./run.ts')).run(argv.slice(1));
  if (argv[0] === 'config') return (await import('./config.ts')).configCommand(argv.slice(1));
  let code = 0;
  const program = new Command('statelet')
    .description('A Kubernetes node agent that remembers why it did each thing')
    .version(STATELET_VERSION)
    .exitOverride()
    .showHelpAfterError();
  program
    .command('run')
    .description("start the node agent with a kubelet's flags (statelet run --help)")
    .allowUnknownOption();
  program.command('config').description('print the effective configuration, and where each value came from');
  program
    .command('replay')
    .description('run a journal again and report the first difference')
    .argument('<log...>', 'journal directories or segment files')
    .option('--incarnation <id>', 'which start of the node (default: the newest)')
    .option('--format <format>', 'text or json', 'text')
    .action(async (logs: string[], options: { incarnation?: string; format: string }) => {
      code = (await import('./replay.ts')).replayCommand(logs, options);
    });
  program
    .command('verify')
    .description('check a journal file by file, without running it')
    .argument('<log...>', 'journal directories or segment files')
    .option('--format <format>', 'text or json', 'text')
    .action(async (logs: string[], options: { format: string }) => {
      code = (await import('./verify.ts')).verifyCommand(logs, options);
    });
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown;
    return thrown.exitCode === 0 ? 0 : exitCodes.usage;
  }
  return code;
}
