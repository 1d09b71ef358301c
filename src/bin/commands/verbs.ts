/** The table of verbs that read what a daemon has left or tells. Each is loaded only when it is called. */
import { Command, CommanderError } from 'commander';
import { exitCodes } from '../exit-codes.ts';
import { STATELET_VERSION } from '../version.ts';
import { addLocalVerbs } from './local-verbs.ts';

export async function callVerb(argv: readonly string[]): Promise<number> {
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
  program
    .command('run-once')
    .description('run the static pods once, print what became of them, and end (statelet run-once --help)')
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
  addInsight(program, (given) => (code = given));
  addLocalVerbs(program, (given) => (code = given));
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown;
    return thrown.exitCode === 0 ? 0 : exitCodes.usage;
  }
  return code;
}

type Chosen = { readonly incarnation?: string; readonly format: string };

/** The verbs that read a journal and explain it. */
function addInsight(program: Command, ended: (code: number) => void): void {
  const verb = (name: string, description: string): Command =>
    program
      .command(name)
      .description(description)
      .option('--incarnation <id>', 'which start of the node (default: the newest)')
      .option('--format <format>', 'text or json', 'text');
  const log = ['<log>', 'journal directory or segment file'] as const;
  verb('time', 'show how long starting took, phase by phase')
    .argument(...log)
    .action(async (path: string, chosen: Chosen) => ended((await import('./time.ts')).timeCommand(path, chosen)));
  verb('blame', 'show which operations cost the time')
    .argument(...log)
    .action(async (path: string, chosen: Chosen) => ended((await import('./blame.ts')).blameCommand(path, chosen)));
  verb('critical-chain', 'show what had to happen before healthz answered, or a pod was Running')
    .argument(...log)
    .argument('[goal]', 'healthz, or pod/NAME', 'healthz')
    .action(async (path: string, goal: string, chosen: Chosen) =>
      ended((await import('./critical-chain.ts')).criticalChainCommand(path, goal, chosen)),
    );
  verb('why', 'show what something is doing now, what it waits for, and what led there')
    .argument(...log)
    .argument('<subject>', 'startup, pod/NAME, or pod/NAME/CONTAINER')
    .action(async (path: string, subject: string, chosen: Chosen) =>
      ended((await import('./why.ts')).whyCommand(path, subject, chosen)),
    );
  program
    .command('view')
    .description('open the visualizer on a journal, every moment of it, until Ctrl-C')
    .argument(...log)
    .option('--incarnation <id>', 'which start of the node (default: the newest)')
    .option('--port <number>', 'loopback port of the page; 0 takes any', '0')
    .action(async (path: string, chosen: { incarnation?: string; port: string }) =>
      ended(await (await import('./view.ts')).viewCommand(path, chosen)),
    );
  verb('diff', 'compare two starts, phase by phase, and show the first decision that differs')
    .argument('<a>', log[1])
    .argument('<b>', log[1])
    .action(async (a: string, b: string, chosen: Chosen) =>
      ended((await import('./diff.ts')).diffCommand(a, b, chosen)),
    );
}
