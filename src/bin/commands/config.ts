/**
 * `statelet config print [kubelet flags]`: the configuration that a kubelet would run with here, and where each value
 * came from: default, file, drop-in or flag. Takes the arguments of `statelet run`; credentials are masked.
 */
import { Document, isMap, isPair, isScalar, isSeq, type Pair, type YAMLMap } from 'yaml';
import { toMasked } from '../../machines/configuration/fields/decode.ts';
import { type OriginatedValue, printOrigin, valuesWithOrigin } from '../../machines/configuration/resolve.ts';
import { type Effective, effectiveConfiguration, parseKubeletArguments } from '../effective-configuration.ts';
import { exitCodes } from '../exit-codes.ts';
import { printLines, splitArguments } from '../prepared-run.ts';
import { table } from '../printable.ts';

const FORMATS = ['yaml', 'json', 'table'] as const;
type Format = (typeof FORMATS)[number];
const USAGE = `Usage: statelet config print [--format ${FORMATS.join('|')}] [kubelet flags]\n`;
const HELP = `${USAGE}
Prints the configuration that statelet run would have with these flags, and where each value came from: default, file,
drop-in or flag. Credentials are masked. The form yaml (default) is a configuration file that --config takes.

Example:
  statelet config print --config /etc/kubernetes/kubelet.yaml --max-pods 50
`;
const REFUSED = 1;

export async function configCommand([verb, ...rest]: readonly string[]): Promise<number> {
  if (verb === '--help' || verb === '-h') return help();
  if (verb !== 'print') return usage(verb === undefined ? 'what to do is missing' : `unknown command ${verb}`);
  const { format, argv } = takeFormat(rest);
  const wanted = FORMATS.find((each) => each === format);
  if (wanted === undefined) return usage(`--format is ${FORMATS.join(', ')}; not ${format}`);
  const split = splitArguments(argv);
  if ('error' in split) return usage(split.error);
  const line = parseKubeletArguments(split.kubelet);
  if (line.kind === 'error') return usage(line.error);
  if (line.kind !== 'run') return help();
  const effective = await effectiveConfiguration(line);
  printLines('warn', effective.warnings);
  if (effective.kind === 'refused') {
    printLines('error', effective.lines);
    return REFUSED;
  }
  process.stdout.write(printed(effective, wanted));
  return exitCodes.same;
}

function help(): number {
  process.stdout.write(HELP);
  return exitCodes.same;
}

function usage(reason: string): number {
  process.stderr.write(`statelet config: ${reason}\n${USAGE}`);
  return exitCodes.usage;
}

/** `--format` is no flag of a kubelet, and may stand anywhere before `--`. */
function takeFormat(rest: readonly string[]): { format: string; argv: string[] } {
  const argv = [...rest];
  const at = argv.findIndex((argument) => argument === '--format' || argument.startsWith('--format='));
  if (at === -1) return { format: 'yaml', argv };
  const [argument = '', value = ''] = argv.splice(at, argv[at] === '--format' ? 2 : 1);
  return { format: argument.includes('=') ? argument.slice('--format='.length) : value, argv };
}

function printed({ configuration, line, files }: Extract<Effective, { kind: 'effective' }>, format: Format): string {
  const values = valuesWithOrigin(configuration, line.given, files);
  if (format === 'json') return `${JSON.stringify({ configuration: toMasked(configuration), values }, null, 2)}\n`;
  if (format === 'table') return asTable(values);
  return asYaml(toMasked(configuration), new Map(values.map(({ path, origin }) => [path, printOrigin(origin)])));
}

const asTable = (values: readonly OriginatedValue[]): string =>
  table(
    [{ title: 'FIELD' }, { title: 'VALUE' }, { title: 'FROM' }],
    values.map(({ path, value, origin }) => [path, JSON.stringify(value), printOrigin(origin)]),
  );

/** A configuration file with the origin of each value in a comment. */
function asYaml(configuration: object, origins: ReadonlyMap<string, string>): string {
  const document = new Document(configuration);
  if (isMap(document.contents)) annotate(document.contents, '', origins);
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

function annotate(map: YAMLMap, prefix: string, origins: ReadonlyMap<string, string>): void {
  for (const pair of map.items) {
    const path = pathOf(pair, prefix, origins);
    const { value } = pair;
    const origin = origins.get(path);
    if (origin === undefined) {
      if (isMap(value) && value.items.length > 0) annotate(value, path, origins);
    } else if (isScalar(value)) value.comment = ` ${origin}`;
    else if (isSeq(value) || isMap(value)) {
      value.flow = true;
      value.comment = ` ${origin}`;
    }
  }
}

/** Keys of a map are in brackets, fields of a struct after a dot; the paths that exist say which it is. */
function pathOf(pair: Pair, prefix: string, origins: ReadonlyMap<string, string>): string {
  const key = isPair(pair) && isScalar(pair.key) ? String(pair.key.value) : '';
  if (prefix === '') return key;
  const bracketed = `${prefix}[${key}]`;
  return origins.has(bracketed) ? bracketed : `${prefix}.${key}`;
}
