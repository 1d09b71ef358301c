/** `statelet dot CHART`: the chart of a machine, or of an actor with its active states, for Graphviz or Mermaid. */
import { JournalError } from '../../kernel/journal/index.ts';
import { NotReplayable, replay } from '../../kernel/replay.ts';
import { stateNodesOf } from '../../kernel/state-nodes.ts';
import { type AnyStateNode, chartsOf } from '../../kernel/steps.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { dotOf, mermaidOf } from '../insight/chart-text.ts';
import { journalAt, refuse } from '../insight/command.ts';
import { replayOptions } from '../insight/replayed.ts';
import { actorName, Story } from '../insight/story.ts';

export interface DotOptions {
  readonly format: string;
  readonly journal?: string;
  readonly incarnation?: string;
}

/** A chart, and the ids of the states that are active in it. */
interface Drawn {
  readonly root: AnyStateNode;
  readonly active: ReadonlySet<string>;
}

export function dotCommand(name: string, { format, journal, incarnation }: DotOptions): number {
  if (format !== 'dot' && format !== 'mermaid') {
    return refuse('dot', `--format is dot or mermaid, not ${JSON.stringify(format)}`, exitCodes.usage);
  }
  try {
    const drawn = journal === undefined ? machineNamed(name) : actorNamed(name, journal, incarnation);
    if (typeof drawn === 'string') return refuse('dot', drawn, exitCodes.expectationMissing);
    process.stdout.write((format === 'dot' ? dotOf : mermaidOf)(drawn.root, drawn.active));
    return exitCodes.same;
  } catch (thrown) {
    if (thrown instanceof JournalError) return refuse('dot', thrown.message, exitCodeOf(thrown));
    if (thrown instanceof NotReplayable) return refuse('dot', thrown.message, exitCodes.invalidLog);
    throw thrown;
  }
}

function machineNamed(name: string): Drawn | string {
  const charts = chartsOf(kubeletMachine);
  const chart = charts.find(({ id }) => id === name);
  const root = chart?.states[0];
  if (root) return { root, active: new Set() };
  return `there is no machine ${JSON.stringify(name)}; there are ${charts.map(({ id }) => id).join(', ')}`;
}

/** The states of an actor come from a replay: at the end of the journal, or where this build differs from it. */
function actorNamed(name: string, log: string, incarnation: string | undefined): Drawn | string {
  const journal = journalAt(log, incarnation);
  const story = new Story(journal);
  const { kernel, divergence } = replay(replayOptions(journal));
  if (divergence) return `this build does not replay ${log} from record ${divergence.n} on`;
  const is = (address: string): boolean => address === name || actorName(address, story) === name;
  const address = kernel.addresses.find(is);
  const nodes = address === undefined ? undefined : stateNodesOf(kernel.snapshotOf(address));
  const [top] = nodes ?? [];
  if (!nodes || !top) return `${log} ends without an actor ${JSON.stringify(name)} that has a chart`;
  return { root: top.machine.root, active: new Set(nodes.map(({ id }) => id)) };
}
