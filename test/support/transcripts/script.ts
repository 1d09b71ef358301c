/**
 * Transcripts: stories of a chart as text, in the manner of etcd's raft. A story is a file of blocks: commands to a
 * stage, one per line (with their details indented below), a line `----`, and the resulting decisions of the machines.
 *
 * Invariant: playing a story keeps all of its text except the decisions, so `npm run generate` can write them, and the
 * diff of a code change shows the decisions that it changes.
 */
export interface Command {
  readonly name: string;
  readonly argument: string;
  /** The lines below the command without their indentation, as one text. */
  readonly details: string;
}

/** The place of a story: a node, or one subsystem with its siblings. */
export interface Stage {
  perform(command: Command): void;
  /** The decisions since the last call, one per line. */
  decisions(): readonly string[];
}

const RULE = '----';
const NOTHING = '(nothing)';
const INDENTATION = '  ';

/** The story with the decisions that the stage makes now. */
export function play(story: string, stage: Stage): string {
  const blocks = story.trim().split(/\n{2,}/);
  return `${blocks.map((block) => playBlock(block.split('\n'), stage)).join('\n\n')}\n`;
}

function playBlock(lines: readonly string[], stage: Stage): string {
  const rule = lines.indexOf(RULE);
  if (rule < 0 && lines.every((line) => line.startsWith('#'))) return lines.join('\n');
  const asked = rule < 0 ? lines : lines.slice(0, rule);
  for (const command of commandsOf(asked.filter((line) => !line.startsWith('#')))) stage.perform(command);
  const decisions = stage.decisions();
  return [...asked, RULE, ...(decisions.length > 0 ? decisions : [NOTHING])].join('\n');
}

function commandsOf(lines: readonly string[]): Command[] {
  const commands: Command[] = [];
  for (const line of lines) {
    if (line.startsWith(INDENTATION)) {
      const command = commands.pop();
      if (!command) throw new Error(`no command above "${line.trim()}"`);
      commands.push({ ...command, details: `${command.details}${line.slice(INDENTATION.length)}\n` });
      continue;
    }
    const [, name = '', argument = ''] = /^(\S+) ?(.*)$/.exec(line) ?? [];
    commands.push({ name, argument, details: '' });
  }
  return commands;
}

/** `30s`, `5m` or `250ms` in milliseconds. */
export function milliseconds(text: string): number {
  const [, amount, unit] = /^(\d+)(ms|s|m)$/.exec(text) ?? [];
  if (amount === undefined) throw new Error(`"${text}" is no time such as 250ms, 30s or 5m`);
  return Number(amount) * { ms: 1, s: 1_000, m: 60_000 }[unit as 'ms' | 's' | 'm'];
}
