/**
 * The text of `--help`: what this program is, then every flag with type, default and deprecation.
 *
 * The layout is pflag's (two columns, sorted, defaults in brackets); the sentences are Statelet's.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject } from '../../../kernel/xstate.ts';
import { byBytes, quote } from '../../model/values/go-text.ts';
import { flagDefaults } from '../fields/defaults.ts';
import { FEATURE_GATES, FEATURE_GROUPS } from '../fields/feature-gate-table.ts';
import { FLAGS } from './flag-table.ts';
import type { FlagKind, FlagSpec } from './flag-values.ts';

const INTRODUCTION = [
  'The node agent of Kubernetes: it runs the pods of one machine on a container runtime and reports on both.',
  '',
  'With --kubeconfig the pods come from the API server, and the node is registered there. Static pods come from files',
  '(the field staticPodPath) and from a URL (staticPodURL), with or without an API server.',
  '',
  'Usage:',
  '  kubelet [flags]',
  '',
  'Flags:',
];

const CONTINUATION = ' '.repeat(16);
const TYPE_NAMES: Readonly<Partial<Record<FlagKind, string>>> = {
  bool: '',
  standardBool: '',
  standardInt: 'int',
  standardDuration: 'duration',
  labels: 'mapStringString',
  stringPairs: 'mapStringString',
  onePair: 'mapStringString',
  thresholds: 'mapStringString',
  gates: 'mapStringBool',
  headers: 'colonSeparatedMultimapStringString',
  taints: '[]v1.Taint',
  reservedMemory: 'reserved-memory',
  level: 'Level',
  vmodule: 'pattern=N,...',
};

export function helpText(): string {
  const defaults = flagDefaults({});
  const rows = FLAGS.map((flag) => ({
    left: leftColumn(flag),
    right: rightColumn(flag, defaultOf(flag, defaults)),
    flag,
  }));
  const all = [
    ...rows.map(({ flag, left, right }) => ({ name: flag.name, left, right })),
    { name: 'help', left: '  -h, --help', right: 'Print this text' },
    { name: 'version', left: '      --version version[=true]', right: 'Print the version, or all of it with =raw' },
  ].toSorted((one, other) => byBytes(one.name, other.name));
  const width = Math.max(...all.map(({ left }) => left.length));
  return [...INTRODUCTION, ...all.map(({ left, right }) => `${left.padEnd(width)}   ${right}`)].join('\n');
}

function leftColumn({ name, kind, shorthand }: FlagSpec): string {
  const type = TYPE_NAMES[kind] ?? kind;
  return `${shorthand === undefined ? '      ' : `  -${shorthand}, `}--${name}${type === '' ? '' : ` ${type}`}`;
}

function rightColumn({ kind, usage, deprecated }: FlagSpec, fallback: Json | undefined): string {
  const shown = printDefault(fallback);
  const gates =
    kind === 'gates'
      ? gateLines()
          .map((line) => `\n${CONTINUATION}${line}`)
          .join('')
      : '';
  return [
    `${usage}${gates}`,
    ...(shown === null ? [] : [`(default ${shown})`]),
    ...(deprecated === undefined ? [] : [`(DEPRECATED: ${deprecated})`]),
  ].join(' ');
}

/** Alpha and beta gates; graduated ones need no switch. */
function gateLines(): string[] {
  const groups = Object.entries(FEATURE_GROUPS).map(([name, stage]) => [name, { stage, enabled: false }] as const);
  return [...Object.entries(FEATURE_GATES), ...groups]
    .filter(([, { stage }]) => stage === 'alpha' || stage === 'beta')
    .toSorted(([one], [other]) => byBytes(one, other))
    .map(([name, { stage, enabled }]) => `${name}=true|false (${stage.toUpperCase()} - default=${enabled})`);
}

function defaultOf(flag: FlagSpec, defaults: ReturnType<typeof flagDefaults>): Json | undefined {
  if (flag.field === undefined) return flag.default;
  if (flag.kind === 'thresholds') return undefined;
  return flag.field
    .split('.')
    .reduce<Json | undefined>((value, key) => (isObject(value) ? value[key] : undefined), defaults);
}

function printDefault(value: Json | undefined): string | null {
  if (value === undefined || value === null || value === false || value === 0 || value === '') return null;
  if (Array.isArray(value)) return value.length === 0 ? null : `[${value.join(',')}]`;
  if (typeof value === 'object') return null;
  if (typeof value !== 'string') return String(value);
  return value === '0s' || value === '0' ? null : isDurationText(value) ? value : quote(value);
}

function isDurationText(value: string): boolean {
  return /^-?([0-9.]+(h|m|s|ms|µs|ns))+$/.test(value);
}
