/** The man page and the completions of shells, from the definitions of `statelet --help`. */
import type { Command, Option } from 'commander';
import { programOf } from '../../src/bin/commands/verbs.ts';
import { STATELET_FLAGS_HELP } from '../../src/bin/prepared-run.ts';
import { FLAGS } from '../../src/machines/configuration/flags/flag-table.ts';
import type { Source } from './tree.ts';

interface Verb {
  readonly name: string;
  readonly description: string;
  readonly usage: string;
  readonly options: readonly { readonly flags: readonly string[]; readonly words: string; readonly text: string }[];
}

/** Verbs with the flags of a kubelet, which have a parser of their own. */
const DAEMON_VERBS: ReadonlySet<string> = new Set(['run', 'run-once', 'config']);
const ownFlags = [...STATELET_FLAGS_HELP.matchAll(/^ +(--[\w-]+)/gm)].map(([, flag]) => flag!);
const kubeletFlags = [...ownFlags, ...FLAGS.map(({ name }) => `--${name}`)].toSorted();

function verbs(): readonly Verb[] {
  return programOf(() => {}).commands.map((command: Command) => ({
    name: command.name(),
    description: command.description(),
    usage: command.usage(),
    options: command.options.map((option: Option) => ({
      flags: [option.short, option.long].filter((flag) => flag != null),
      words: option.flags,
      text: option.description,
    })),
  }));
}

const flagsOf = ({ name, options }: Verb): readonly string[] =>
  DAEMON_VERBS.has(name) ? kubeletFlags : options.flatMap(({ flags }) => flags);

/** Text for a man page, in which a backslash and a leading point are commands. */
const escaped = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/gm, '\\&$1');

export function manualPage({ version, epoch }: Source): string {
  const date = new Date(epoch * 1_000).toISOString().slice(0, 10);
  const sections = verbs().flatMap((verb) => [
    '.SS',
    `.B statelet ${escaped(verb.name)}`,
    escaped(verb.usage),
    '.PP',
    `${escaped(verb.description)}.`,
    ...verb.options.flatMap(({ words, text }) => ['.TP', `.B ${escaped(words)}`, escaped(text)]),
  ]);
  return `${[
    `.TH STATELET 8 ${date} "statelet ${version}" "System administration"`,
    '.SH NAME',
    'statelet \\- a Kubernetes node agent that remembers why it did each thing',
    '.SH SYNOPSIS',
    '.B statelet',
    'VERB [OPTION]...',
    '.SH DESCRIPTION',
    '.B statelet run',
    "takes the flags, the configuration file and the folders of a kubelet and does a kubelet's work. Each of its",
    'decisions is in a journal, which the other verbs read.',
    '.SH VERBS',
    ...sections,
    '.SH FLAGS OF A NODE',
    'What a kubelet has,',
    '.B statelet run \\-\\-help',
    'lists. These are its own:',
    '.nf',
    escaped(STATELET_FLAGS_HELP.trim()),
    '.fi',
    '.SH EXIT STATUS',
    '0: done, nothing differs. 1: refused, or a difference. 2: usage. 3: a damaged journal. 4: one of a newer format.',
    '6: two replays differ. 7: no journal. 8: not in the journal.',
    '.SH FILES',
    '.TP',
    '.I /var/lib/kubelet/journal',
    'The journal, for root alone.',
    '.TP',
    '.I /usr/share/statelet/20\\-statelet.conf',
    "Put into kubelet.service.d it makes kubeadm's kubelet.service run Statelet.",
  ].join('\n')}\n`;
}

export function bashCompletion(): string {
  const all = verbs();
  const cases = all.map((verb) => `    ${verb.name}) words='${flagsOf(verb).join(' ')}' ;;`);
  return `# Completion of statelet for bash.
_statelet() {
  local word=\${COMP_WORDS[COMP_CWORD]} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${all.map(({ name }) => name).join(' ')}' -- "$word"))
    return
  fi
  case "$word" in -*) ;; *) compopt -o default 2>/dev/null; return ;; esac
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _statelet statelet
`;
}

export function zshCompletion(): string {
  const quoted = (text: string): string => text.replaceAll("'", "'\\''").replaceAll(':', '\\:');
  const all = verbs();
  const listed = all.map(({ name, description }) => `    '${name}:${quoted(description)}'`);
  const cases = all.map((verb) => `    ${verb.name}) compadd -- ${flagsOf(verb).join(' ')} ;;`);
  return `#compdef statelet
_statelet() {
  local -a verbs=(
${listed.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  if [[ $words[CURRENT] != -* ]]; then
    _files
    return
  fi
  case $words[2] in
${cases.join('\n')}
  esac
}
_statelet "$@"
`;
}
