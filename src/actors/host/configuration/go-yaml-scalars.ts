/**
 * Values of YAML scalars like those of the Go kubelet's YAML 1.1 reader: `yes` is true, `0644` is octal, a date is
 * text.
 */
import type { Json } from '../../../kernel/json.ts';
import { numberOf } from '../../../machines/model/values/exact-number.ts';
import { parseInteger } from '../../../machines/model/values/go-text.ts';

const TAGS = 'tag:yaml.org,2002:';
const RESOLVED_TAGS = ['str', 'bool', 'int', 'float', 'null', 'timestamp'];

/** Why a document cannot be read, with the wording of the Go reader. */
export class YamlRefusal extends Error {}

export interface Scalar {
  readonly tag: string;
  readonly value: Json;
}

const WORDS: ReadonlyMap<string, Scalar> = new Map(
  [
    { tag: 'bool', value: true, words: 'y Y yes Yes YES true True TRUE on On ON' },
    { tag: 'bool', value: false, words: 'n N no No NO false False FALSE off Off OFF' },
    { tag: 'null', value: null, words: '~ null Null NULL' },
    { tag: 'float', value: 'NaN', words: '.nan .NaN .NAN' },
    { tag: 'float', value: '+Inf', words: '.inf .Inf .INF +.inf +.Inf +.INF' },
    { tag: 'float', value: '-Inf', words: '-.inf -.Inf -.INF' },
  ].flatMap(({ words, ...scalar }) => ['', ...words.split(' ')].slice(1).map((word) => [word, scalar] as const)),
);
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const LARGEST_UNSIGNED = 2n ** 64n - 1n;

/** A quoted scalar is text, and so is one with an unknown tag. */
export function scalarOf({ value, type, tag = '' }: { value: unknown; type?: string; tag?: string }): Scalar {
  const text = typeof value === 'string' ? value : '';
  const isPlain = type === undefined || type === 'PLAIN';
  const name = tag.startsWith(TAGS) ? tag.slice(TAGS.length) : '';
  if (tag === '' || tag === '!') return isPlain || tag === '!' ? plainScalar(text) : { tag: 'str', value: text };
  if (name === 'binary') return { tag: 'str', value: Buffer.from(text, 'base64').toString() };
  if (name === 'str' || !RESOLVED_TAGS.includes(name)) return { tag: 'str', value: text };
  const found = plainScalar(text);
  const isDate = name === 'timestamp' && /^[0-9]{4}-/.test(text);
  const fits = isDate || found.tag === name || (found.tag === 'int' && name === 'float');
  if (!fits) throw new YamlRefusal(`yaml: cannot decode !!${found.tag} \`${text}\` as a !!${name}`);
  return found;
}

/** Rejects a value that JSON cannot express, such as infinity. */
export function finite({ tag, value }: Scalar): Json {
  if (tag !== 'float' || typeof value === 'number') return value;
  throw new YamlRefusal(`json: unsupported value: ${JSON.stringify(value).replaceAll('"', '')}`);
}

function plainScalar(text: string): Scalar {
  const word = text === '' ? WORDS.get('~') : WORDS.get(text);
  if (word !== undefined) return word;
  if (!/^[-+.0-9]/.test(text)) return { tag: 'str', value: text };
  const plain = text.startsWith('.') ? text : text.replaceAll('_', '');
  const integer = text.startsWith('.') ? null : integerOf(plain);
  if (integer !== null) return { tag: 'int', value: integer };
  const number = FLOAT.test(plain) ? Number(plain) : Number.NaN;
  return Number.isFinite(number) ? { tag: 'float', value: number } : { tag: 'str', value: text };
}

function integerOf(text: string): Json {
  const parsed = parseInteger(text, 64);
  if (parsed.error === undefined) return numberOf(String(parsed.value));
  return /^[0-9]+$/.test(text) && !text.startsWith('0') && BigInt(text) <= LARGEST_UNSIGNED ? numberOf(text) : null;
}
