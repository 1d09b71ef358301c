/** The verbs that read a journal. Only `accept` changes one. */
import { Argument, type Command, Option } from 'commander';
import type { CoverageOptions } from './coverage.ts';
import type { DotOptions } from './dot.ts';
import type { LogOptions } from './log.ts';
import type { MinimizeCommandOptions } from './minimize.ts';
import type { RedactOptions } from './redact.ts';
import type { ReplayCommandOptions } from './replay.ts';
import type { SimulateOptions } from './simulate.ts';

type Ended = (code: number) => void;
type Expecting = { readonly incarnation?: string; readonly output: string };
type Chosen = { readonly incarnation?: string; readonly format: string; readonly whole?: boolean };

const A_JOURNAL = "a journal's directory (its newest start), DIRECTORY@3 (its third start), or one segment file";
const EXIT_CODES = `
Exit status: 0 no difference, 1 a difference, 2 wrong usage, 3 a damaged journal, 4 a newer format, 5 too slow,
6 two replays differ, 7 no journal, 8 missing in the journal, 9 a forbidden state, 10 a goal that was not reached,
125 not tested: Statelet itself failed, or its output could not be written.`;

export function addJournalVerbs(program: Command, ended: Ended): void {
  program.commandsGroup('Read a journal:');
  addInsight(program, ended);
  addLog(program, ended);
  addExports(program, ended);
  addView(program, ended);
  addRedact(program, ended);
  addChecks(program, ended);
  addDemands(program, ended);
  addSearches(program, ended);
}

function verb(program: Command, name: string, description: string, ...examples: readonly string[]): Command {
  const lines = examples.map((example) => `  statelet ${name} ${example}\n`).join('');
  return program.command(name).description(description).addHelpText('after', `\nExample:\n${lines}${EXIT_CODES}`);
}

const withFormat = (command: Command): Command =>
  command.option('--format <format>', 'text, or json with all that is known', 'text');

const withStart = (command: Command): Command =>
  command.option('--incarnation <number>', 'which start of the node (default: the newest)');

const journal = (): Argument => new Argument('<journal>', A_JOURNAL);

/** The verbs that explain. */
function addInsight(program: Command, ended: Ended): void {
  const explaining = (name: string, description: string, ...examples: readonly string[]): Command =>
    withStart(withFormat(verb(program, name, description, ...examples)));
  explaining('time', 'show how long starting took, phase by phase', '/var/lib/kubelet/journal')
    .addArgument(journal())
    .action(async (path: string, chosen: Chosen) => ended((await import('./time.ts')).timeCommand(path, chosen)));
  explaining('blame', 'show which operations cost the time', '/var/lib/kubelet/journal')
    .addArgument(journal())
    .action(async (path: string, chosen: Chosen) => ended((await import('./time.ts')).blameCommand(path, chosen)));
  explaining(
    'critical-chain',
    'show the chain of causes before healthz answered, or before a pod was Running',
    '/var/lib/kubelet/journal pod/web',
  )
    .addArgument(journal())
    .argument('[goal]', 'healthz, or pod/NAME', 'healthz')
    .action(async (path: string, goal: string, chosen: Chosen) =>
      ended((await import('./time.ts')).criticalChainCommand(path, goal, chosen)),
    );
  explaining(
    'why',
    'show what something is doing now, what it waits for, and what led there',
    '/var/lib/kubelet/journal startup',
    '/var/lib/kubelet/journal pod/web/app',
  )
    .addArgument(journal())
    .argument('[subject]', 'startup, pod/NAME, pod/NAME/CONTAINER, image/REFERENCE, or actor/NAME', 'startup')
    .option('--whole', 'read the whole journal and replay it without a time limit')
    .action(async (path: string, subject: string, chosen: Chosen) =>
      ended((await import('./why.ts')).whyCommand(path, subject, chosen)),
    );
  explaining(
    'diff',
    'compare two starts, phase by phase, and show the first decision that differs',
    '/var/lib/kubelet/journal@1 /var/lib/kubelet/journal@2',
  )
    .argument('<a>', A_JOURNAL)
    .argument('<b>', 'the other journal, or another start of the same one')
    .option('--whole', 'compare more than the first 25,000 records')
    .action(async (a: string, b: string, chosen: Chosen) =>
      ended((await import('./diff.ts')).diffCommand(a, b, chosen)),
    );
}

function addLog(program: Command, ended: Ended): void {
  const logging = verb(
    program,
    'log',
    'print the records that pass all filters',
    '/var/lib/kubelet/journal --pod web --level warn',
    '/var/lib/kubelet/journal --cause 120 --output json',
  );
  withStart(logging)
    .addArgument(journal())
    .option('--actor <address>', 'records of this actor and of its children: pod/NAME/CONTAINER, or an address')
    .option('--type <type>', "kind of record, type of event, or name of operation; 'cri.*' matches a prefix")
    .option('--pod <name>', 'records that name this pod')
    .option('--cause <number>', 'this record and its consequences')
    .option('--level <level>', 'log lines of this level and above: debug, info, warn, error, fatal')
    .option('--since <time>', 'records from this time after the start: 1.5s, 200ms, 3m')
    .option('--until <time>', 'records until this time after the start')
    .option('--grep <text>', 'records whose JSON contains this text')
    .option('-f, --follow', 'print new records as the daemon writes them, until Ctrl-C')
    .option('--output <format>', 'text, or json: one whole record per line', 'text')
    .action(async (path: string, { follow, ...chosen }: LogOptions & { readonly follow?: boolean }) => {
      const { followLog, logCommand } = await import('./log.ts');
      ended(follow ? await followLog(path, chosen) : logCommand(path, chosen));
    });
}

/** The verbs for other tools. */
function addExports(program: Command, ended: Ended): void {
  withStart(
    verb(
      program,
      'export',
      'print phases and operations as spans, or records as events',
      'journal --to chrome >trace.json',
    ),
  )
    .addArgument(journal())
    .requiredOption('--to <form>', 'otlp (OTLP/JSON), chrome (Perfetto, chrome://tracing), or cloudevents')
    .action(async (path: string, chosen: { incarnation?: string; to: string }) =>
      ended((await import('./export.ts')).exportCommand(path, chosen)),
    );
  withStart(
    verb(
      program,
      'dot',
      "print a machine's chart for Graphviz or Mermaid, or an actor's with its active states",
      'container --format mermaid',
      'pod/web/app --journal /var/lib/kubelet/journal | dot -Tsvg >app.svg',
    ),
  )
    .argument('<chart>', 'id of a machine; with --journal an actor: pod/NAME/CONTAINER, or its address')
    .option('--journal <journal>', A_JOURNAL)
    .option('--format <format>', 'dot, or mermaid', 'dot')
    .action(async (chart: string, chosen: DotOptions) => ended((await import('./dot.ts')).dotCommand(chart, chosen)));
  withStart(verb(program, 'plot', 'print the phases of a start as a picture (SVG)', 'journal >start.svg'))
    .addArgument(journal())
    .action(async (path: string, chosen: { incarnation?: string }) =>
      ended((await import('./export.ts')).plotCommand(path, chosen)),
    );
}

/** The verb that makes a publishable journal. */
function addRedact(program: Command, ended: Ended): void {
  const redacting = verb(
    program,
    'redact',
    'write a copy of the journal without private texts of pods and outputs of programs',
    'journal --output public',
    "journal --output public --value node-7.example --value '10.20.'",
  );
  withStart(redacting)
    .addArgument(journal())
    .requiredOption('-o, --output <folder>', 'a new folder')
    .option('--value <text...>', 'a further private text, removed wherever it occurs')
    .option('--verify', 'check that the copy replays, decides the same, and contains no private text', true)
    .option('--no-verify', 'do not check the copy')
    .action(async (path: string, chosen: RedactOptions) =>
      ended(await (await import('./redact.ts')).redactCommand(path, chosen)),
    );
}

function addView(program: Command, ended: Ended): void {
  const viewing = verb(program, 'view', 'open a journal in the visualizer, until Ctrl-C', 'journal');
  withStart(viewing)
    .addArgument(new Argument('[journal]', A_JOURNAL))
    .option('--port <number>', 'loopback port of the page; 0 takes any', '0')
    .option('-o, --output <file>', 'write page and journal into one file that needs no server')
    .action(async (path: string | undefined, chosen: { incarnation?: string; port: string; output?: string }) =>
      ended(await (await import('./view.ts')).viewCommand(path, chosen)),
    );
}

/** The verbs for CI. */
function addChecks(program: Command, ended: Ended): void {
  const replaying = verb(
    program,
    'replay',
    'feed the inputs of a journal to the machines of this build, and report the first decision that differs',
    'journal',
    "'recorded/**' --shard 1/4 --output junit",
  );
  withStart(replaying)
    .option('--output <format>', 'text, json, junit, github (annotations and the summary of a step), markdown, or html')
    .addOption(new Option('--format <format>', 'another name of --output').hideHelp())
    .argument('<log...>', `${A_JOURNAL}, a folder that holds journals, or a quoted glob`)
    .option('--jobs <number>', 'processes at a time (default: one for each processor)')
    .option('--shard <i/n>', 'replay only every n-th log of the sorted list, from the i-th on')
    .option('--strict', 'also compare messages, states and digests of machines that differ from the recorded ones')
    .option('--bisect', 'exit with 125, which makes git bisect skip the commit, if nothing could be compared')
    .action(async (logs: string[], chosen: ReplayCommandOptions) =>
      ended(await (await import('./replay.ts')).replayCommand(logs, chosen)),
    );
  verb(
    program,
    'accept',
    'rewrite journals with the changed decisions of this build; refused when CI is set',
    'recorded',
  )
    .argument('<log...>', 'as for replay, but whole journals')
    .action(async (logs: string[]) => ended(await (await import('./accept.ts')).acceptCommand(logs)));
  withFormat(
    verb(program, 'verify', 'check the checksums, numbers and hash chain of a journal, without running it', 'journal'),
  )
    .argument('<journal...>', 'as for replay; all starts of a directory are checked')
    .action(async (paths: string[], chosen: Chosen) =>
      ended((await import('./verify.ts')).verifyCommand(paths, chosen)),
    );
}

/** The verbs that search for failures and make journals of them. */
function addSearches(program: Command, ended: Ended): void {
  verb(
    program,
    'simulate',
    'run the whole node in virtual time, with random faults',
    '--seed 7',
    '--seeds 1-1000 --output junit',
  )
    .option('--seed <number>', 'number of the run; the same seed gives the same run')
    .option('--seeds <from-to>', 'run several seeds, in parallel')
    .option('--steps <numbers>', 'numbers of the disturbances that happen, or none')
    .option('--no-faults', 'no call fails, hangs or loses its answer')
    .option('--jobs <number>', 'processes at a time (default: one for each processor)')
    .option('--journals <folder>', 'folder for the journals of seeds that break a rule', 'simulated')
    .option('--keep', 'also keep the journals of seeds that pass')
    .option('--output <format>', 'text, json, or junit (one test case per seed)', 'text')
    .action(async (chosen: SimulateOptions) => ended(await (await import('./simulate.ts')).simulateCommand(chosen)));
  withStart(
    withFormat(
      verb(
        program,
        'minimize',
        'find the smallest journal that fails like a journal or seed',
        'recorded/changed --output small',
        '--seed 7 --output small',
      ),
    ),
  )
    .argument('[journal]', A_JOURNAL)
    .option('--seed <number>', 'a seed of statelet simulate, instead of a journal')
    .option('--shows <text>', 'text that the smaller journal must decide (default: the first difference or crash)')
    .option('--strict', 'as for replay')
    .option('--seconds <number>', 'time limit in seconds', '60')
    .option('-o, --output <folder>', 'folder for the smaller journal', 'minimized')
    .action(async (path: string | undefined, chosen: MinimizeCommandOptions) =>
      ended(await (await import('./minimize.ts')).minimizeCommand(path, chosen)),
    );
}

/** The verbs that check journals against expectations. */
function addDemands(program: Command, ended: Ended): void {
  withStart(
    verb(
      program,
      'expect',
      'check a start against expectations: phases and their order, times, forbidden states',
      'start.yaml journal',
      "start.yaml 'recorded/**' --output junit",
    ),
  )
    .argument('<file>', 'file of expectations (YAML or JSON); see docs/ci.md')
    .argument('<log...>', 'as for replay')
    .option('--output <format>', 'text, json (one object per log), or junit (one test case per expectation)', 'text')
    .action(async (file: string, logs: string[], chosen: Expecting) =>
      ended((await import('./expect.ts')).expectCommand(file, logs, chosen)),
    );
  verb(
    program,
    'coverage',
    'show which states and transitions of the charts the journals cover',
    "'recorded/**' --missing",
    "'recorded/**' --output lcov --charts charts >charts.info",
  )
    .argument('<log...>', 'as for replay')
    .option('--output <format>', 'text, json, or lcov', 'text')
    .option('--missing', 'also list states and transitions that are not covered (text)')
    .option('--charts <folder>', 'folder for the charts as text, to which the lines of LCOV refer')
    .option('--at-least <percent>', 'exit with 5 if fewer states and transitions are covered')
    .action(async (logs: string[], chosen: CoverageOptions) =>
      ended((await import('./coverage.ts')).coverageCommand(logs, chosen)),
    );
}
