/**
 * Ten thousand broken inputs: configuration files and command lines with which a kubelet ran, each changed at random.
 * Each results in a configuration or an error, soon, and without a stack trace; some are started as nodes. Prints its
 * figures.
 */
import { afterAll, describe, expect, it } from 'vitest';
import { decodeSource } from '../../../src/actors/host/configuration/configuration.ts';
import { SeededRandom } from '../../../src/kernel/purity.ts';
import { parseCommandLine } from '../../../src/machines/configuration/flags/flags.ts';
import { resolveConfiguration } from '../../../src/machines/configuration/resolve.ts';
import type { ConfigurationSource } from '../../../src/machines/model/operations/host.ts';
import { type Case, readCases } from '../configuration/corpus.ts';
import { type Answers, BootNode, fail, ok } from './boot-node.ts';

const SEED = 20_261_121;
const EACH = 5_000;
/** Of each kind, one of this many inputs is started as a node. */
const BOOTED = 50;
/** Limit of CPU time. Upstream's slowest input takes some milliseconds; more than this would delay the node. */
const MAX_MS = 1_000;
/** A frame of a stack in JavaScript or Go. */
const STACK = /^\s+at .+[:(]\d|goroutine \d|\[object Object\]/m;

const PLACES: readonly (readonly [RegExp, string])[] = [
  [/: "?\$\{PORT\d+\}"?/g, ': 41250'],
  [/\$\{PORT\d+\}/g, '41250'],
  [/\$\{CRI\}/g, 'unix:///run/containerd/containerd.sock'],
  [/\$\{\w+\}/g, '/case'],
];
const filled = (text: string): string => PLACES.reduce((sum, [place, value]) => sum.replace(place, value), text);

/** Cases with which a kubelet ran, with their placeholders replaced. */
const cases: readonly Pick<Case, 'argv' | 'files'>[] = readCases()
  .filter(({ expect: { exit } }) => exit === 'running')
  .map(({ argv, files }) => ({
    argv: argv.map(filled),
    files: Object.fromEntries(Object.entries(files).map(([name, text]) => [name, filled(text)])),
  }));
const random = new SeededRandom(SEED);
const below = (max: number): number => Math.floor(random.next() * max);
const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)]!;
const figures = { files: { accepted: 0, refused: 0 }, arguments: { accepted: 0, refused: 0 }, slowestMs: 0, booted: 0 };

const PIECES = [
  '\n',
  '\t',
  '{',
  '}',
  '[',
  ']',
  ': ',
  '- ',
  '"',
  "'",
  '&a',
  '*a',
  '<<: *a',
  '!!int ',
  '|',
  '#',
  '---',
  '\0',
];
const VALUES = [
  '-1',
  '1e400',
  '9223372036854775808',
  'null',
  'true',
  'NaN',
  '0x1f',
  '1h',
  '10Gi',
  '%',
  '\u{1f4a5}',
  '../..',
];

/** One change: a part is removed, inserted, doubled, or copied from elsewhere. */
function mutated(text: string): string {
  const at = below(text.length + 1);
  const length = below(12);
  switch (below(5)) {
    case 0:
      return text.slice(0, at) + text.slice(at + length);
    case 1:
      return text.slice(0, at) + pick(PIECES) + text.slice(at);
    case 2:
      return text.slice(0, at) + pick(VALUES) + text.slice(at + length);
    case 3:
      return text.slice(0, at) + text.slice(at, at + length).repeat(1 + below(40)) + text.slice(at + length);
    default:
      return text.slice(0, at) + String.fromCodePoint(below(0x2_ff)) + text.slice(at);
  }
}

const times = (text: string): string => Array.from({ length: 1 + below(4) }).reduce<string>(mutated, text);

function mutatedArguments(argv: readonly string[]): string[] {
  const at = below(argv.length);
  const other = pick(pick(cases).argv);
  return argv.flatMap((argument, index) => {
    if (index !== at) return [argument];
    return pick([[], [times(argument)], [argument, argument], [times(other), argument], ['--', argument]]);
  });
}

interface Answer {
  readonly kind: 'accepted' | 'refused';
  readonly text: string;
}

function answerOf(argv: readonly string[], file: ConfigurationSource): Answer {
  const line = parseCommandLine(argv, { version: 'v1.36.2', raw: '' });
  if (line.kind === 'error') return { kind: 'refused', text: line.error };
  if (line.kind !== 'run') return { kind: 'accepted', text: line.text };
  const files = { file: line.flags.config === '' ? null : file, dropIns: null };
  const resolution = resolveConfiguration(line.flags, line.given, files, { cgroupVersion: 1 });
  const text = resolution.kind === 'failed' ? resolution.lines.join('\n') : '';
  return { kind: resolution.kind === 'failed' ? 'refused' : 'accepted', text };
}

function judge(what: 'files' | 'arguments', argv: readonly string[], text: string): void {
  const before = process.threadCpuUsage();
  const answer = answerOf(argv, decodeSource('/etc/kubelet.yaml', Buffer.from(text)));
  const { user, system } = process.threadCpuUsage(before);
  const tookMs = (user + system) / 1_000;
  figures.slowestMs = Math.max(figures.slowestMs, tookMs);
  figures[what][answer.kind]++;
  const shown = JSON.stringify({ argv, text });
  expect(tookMs, shown).toBeLessThan(MAX_MS);
  expect(answer.text, shown).not.toMatch(STACK);
  expect(answer.kind === 'refused' && answer.text === '', `refused without a reason: ${shown}`).toBe(false);
}

/** The node itself runs, or ends with a phase and an error; no actor crashes. */
function boot(argv: readonly string[], text: string): void {
  const file = decodeSource('/etc/kubelet.yaml', Buffer.from(text));
  const answers: Answers = {
    'host.readConfiguration': ok(file),
    'host.readDropIns': ok({ kind: 'files', files: [] }),
    'kube.connect': fail('connection refused'),
    'cri.status': fail('connection refused'),
    'certificate.checkKubeconfig': ok({ isValid: false, problem: '' }),
  };
  const node = new BootNode({ argv, answers }).boot().run(2_000);
  figures.booted++;
  expect(node.crashes(), JSON.stringify({ argv, text })).toEqual([]);
  if (node.ended === null) return;
  expect(node.ended).toMatchObject({ exitCode: expect.any(Number) });
  expect(node.lines().at(-1)!.text).toBe('command failed');
}

const textOf = ({ files }: Pick<Case, 'files'>): string => files['kubelet.yaml'] ?? '';

describe('ten thousand broken inputs', { timeout: 600_000 }, () => {
  it('files', () => {
    const withFile = cases.filter((each) => textOf(each) !== '');
    for (let i = 0; i < EACH; i++) {
      const { argv, files } = pick(withFile);
      const text = times(textOf({ files }));
      judge('files', argv, text);
      if (i % BOOTED === 0) boot(argv, text);
    }
  });

  it('command lines', () => {
    for (let i = 0; i < EACH; i++) {
      const one = pick(cases);
      const argv = mutatedArguments(one.argv);
      judge('arguments', argv, textOf(one));
      if (i % BOOTED === 0) boot(argv, textOf(one));
    }
  });

  it('are both taken and refused', () => {
    for (const { accepted, refused } of [figures.files, figures.arguments]) {
      expect(accepted + refused).toBe(EACH);
      expect(accepted).toBeGreaterThan(EACH / 20);
      expect(refused).toBeGreaterThan(EACH / 20);
    }
  });

  afterAll(() => {
    const { files, arguments: given, slowestMs, booted } = figures;
    const kind = ({ accepted, refused }: typeof files) => `${accepted} accepted, ${refused} refused`;
    const sums = `files: ${kind(files)}; command lines: ${kind(given)}`;
    process.stdout.write(
      `${2 * EACH} mutations (seed ${SEED}): ${sums}; slowest ${slowestMs.toFixed(0)} ms; ${booted} started as nodes\n`,
    );
  });
});
