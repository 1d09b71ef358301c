/**
 * The few flags of `statelet run` that no kubelet has. They are taken out of the arguments before the kubelet's own
 * parser sees them, in either spelling (`--journal-dir=X`, `--journal-dir X`).
 */
export interface StateletFlags {
  /** Folder for everything that a kubelet writes below `/var`, for a node that may not write there. */
  readonly dataDir: string | null;
  /** Default: `<root-dir>/journal`. */
  readonly journalDir: string | null;
  /** Whether values of variables and headers are written into the journal in plain text. */
  readonly journalPlain: boolean;
  /** Loopback port of the visualizer; `off` for none. */
  readonly visualizerPort: number | 'off';
  /** Whether pods of the API server start after a reboot while it is unreachable. */
  readonly rememberPods: boolean;
  /** Only check command line and configuration. */
  readonly validate: boolean;
}

const DEFAULT_VISUALIZER_PORT = 10_247;

const SWITCHES: ReadonlySet<string> = new Set(['--journal-plain', '--validate']);
const NAMES = ['data-dir', 'journal-dir', 'remember-pods', 'visualizer-port'] as const;

export const STATELET_FLAGS_HELP = `
Statelet flags:

      --data-dir string          Folder for all that a kubelet writes below /var
      --journal-dir string       Folder of the journal (default "<root-dir>/journal")
      --journal-plain            Write variables, commands and headers of pods into the journal as they are
      --remember-pods string     "false": start no pod of the API server while that is away (default "true")
      --visualizer-port string   Loopback port of the visualizer, or "off" (default ${DEFAULT_VISUALIZER_PORT})
      --validate                 Check command line and configuration, change nothing, and end
`;

export type SplitArguments =
  | { readonly own: StateletFlags; readonly kubelet: readonly string[] }
  | { readonly error: string };

export function splitArguments(argv: readonly string[]): SplitArguments {
  const values = new Map<string, string>();
  const kubelet: string[] = [];
  const remaining = [...argv];
  for (let argument = remaining.shift(); argument !== undefined; argument = remaining.shift()) {
    if (SWITCHES.has(argument)) {
      values.set(argument.slice(2), 'true');
      continue;
    }
    const given = argument;
    const name = NAMES.find((known) => given === `--${known}` || given.startsWith(`--${known}=`));
    if (!name) {
      kubelet.push(given);
      continue;
    }
    const value = given.includes('=') ? given.slice(given.indexOf('=') + 1) : remaining.shift();
    if (value !== undefined) values.set(name, value);
    else return { error: `flag needs an argument: --${name}` };
  }
  const port = visualizerPort(values.get('visualizer-port'));
  if (port === null) {
    return { error: `invalid argument "${values.get('visualizer-port')}" for "--visualizer-port": a port, or "off"` };
  }
  const remember = values.get('remember-pods') ?? 'true';
  if (remember !== 'true' && remember !== 'false') {
    return { error: `invalid argument "${remember}" for "--remember-pods": true, or false` };
  }
  const own = {
    rememberPods: remember === 'true',
    journalPlain: values.has('journal-plain'),
    dataDir: values.get('data-dir') ?? null,
    journalDir: values.get('journal-dir') ?? null,
  };
  return { own: { ...own, visualizerPort: port, validate: values.has('validate') }, kubelet };
}

function visualizerPort(value: string | undefined): number | 'off' | null {
  if (value === undefined) return DEFAULT_VISUALIZER_PORT;
  if (value === 'off') return value;
  return /^\d+$/.test(value) && Number(value) <= 65_535 ? Number(value) : null;
}
