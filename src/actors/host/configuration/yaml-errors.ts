/**
 * Translates errors of the YAML parser into the message and line that the Go kubelet's YAML reader would report. Go's
 * scanner counts lines from one and its parser from zero; it omits the line when that is zero.
 */
import { type Document, visit, type YAMLParseError } from 'yaml';

interface Place {
  readonly text: string;
  /** The offset at which the parser found the error. */
  readonly at: number;
  readonly line: number;
}

type Explanation = readonly [words: string, line: number];
type ErrorExplainer = (place: Place) => Explanation;

const NO_COLON = "could not find expected ':'";
const NO_VALUES = 'mapping values are not allowed in this context';
const NO_TOKEN = 'found character that cannot start any token';
const NO_END = 'found unexpected end of stream';
const NO_KEY = 'did not find expected key';
const NO_SEPARATOR = "did not find expected ',' or '";
const NO_ENTRY = "did not find expected '-' indicator";
const NO_CONTENT = 'did not find expected node content';

const lineAt = (text: string, at: number): number => text.slice(0, at).split('\n').length;
const lineOfEnd = (text: string): number => text.split('\n').length;
const rest = ({ text, at }: Place): string => text.slice(at);
const columnAt = (text: string, at: number): number => at - (text.lastIndexOf('\n', at - 1) + 1);

const scanner =
  (words: string): ErrorExplainer =>
  ({ line }) => [words, line];
const parser =
  (words: string): ErrorExplainer =>
  ({ line }) => [words, line - 1];

/** A quote at the start of a line that never ends. */
const isOpenQuote = (place: Place): boolean => /^"(?:[^"\\]|\\[^])*$|^'(?:[^']|'')*$/.test(rest(place));

/** Whether a key must begin here: at the column of the keys of its block. */
function isKeyPlace({ text, at }: Place): boolean {
  const column = columnAt(text, at);
  if (column === 0) return /^[^\s#%.-]/m.test(text.slice(0, at));
  const before = text
    .slice(0, at - column)
    .split('\n')
    .toReversed();
  const outer = before.find((line) => /^ *[^ #]/.test(line) && line.search(/[^ ]/) <= column);
  return outer?.search(/[^ ]/) === column;
}

/** The error for a key without a colon. Go's scanner reads ahead before it reports this error. */
function missingColon(place: Place): Explanation {
  if (isOpenQuote(place)) return [NO_END, lineOfEnd(place.text)];
  if (rest(place).startsWith('- ')) return [NO_KEY, place.line - 1];
  const scalar = /^[^\n]*/.exec(rest(place))?.[0].length ?? 0;
  const next = place.text.slice(place.at + scalar).search(/\n[^\S\n]*[^\s#]/);
  if (next < 0) return [NO_COLON, lineOfEnd(place.text)];
  const nextAt = place.text.slice(place.at + scalar + next).search(/[^\s]/);
  return [NO_COLON, lineAt(place.text, place.at + scalar + next + nextAt)];
}

/** The error for a key on several lines, whose colon must be on the first line. */
function lateColon(place: Place): Explanation {
  if (isOpenQuote(place)) return [NO_END, lineOfEnd(place.text)];
  if (rest(place).startsWith('- ')) return [NO_KEY, place.line - 1];
  const colon = rest(place).search(/:(?:\s|$)/);
  const line = colon < 0 ? place.line : lineAt(place.text, place.at + colon);
  return [isKeyPlace(place) ? NO_COLON : NO_VALUES, line];
}

function nestedMapping(place: Place): Explanation {
  const quoted = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/s.exec(rest(place))?.[0].length ?? 0;
  const colon = place.text.slice(place.at + quoted).search(/:(?:\s|$)/);
  return [NO_VALUES, colon < 0 ? place.line : lineAt(place.text, place.at + quoted + colon)];
}

/** The error inside brackets or braces, where the missing character depends on the character before. */
const flow =
  (end: string): ErrorExplainer =>
  ({ text, at, line }) => {
    const opening = text.slice(0, at).trimEnd().at(-1) ?? '';
    const isEnd = at >= text.length && !text.endsWith('\n');
    return ['[{,:'.includes(opening) ? NO_CONTENT : `${NO_SEPARATOR}${end}'`, isEnd ? line : line - 1];
  };

/** The error for an entry without a dash in a block that is a list. */
function missingEntry({ text, at, line }: Place): Explanation {
  const column = columnAt(text, at);
  const before = text
    .slice(0, at - column)
    .split('\n')
    .findLast((each) => each.trim() !== '' && each.search(/[^ ]/) <= column);
  const isList = before?.search(/[^ ]/) === column && /^-(?:\s|$)/.test(before.trimStart());
  return [isList ? NO_ENTRY : NO_KEY, line - 1];
}

/**
 * The error for a tab as indentation. After plain text, Go's reader expects a continuation of the text and reports its
 * indentation; elsewhere a tab begins no token.
 */
function tab({ text, at, line }: Place): Explanation {
  const before = text.slice(0, at).trimEnd();
  const isMappingLine = columnAt(text, at) === 0 && /: [^\n"'[{|>&*!#]*[^\n:\]}"'#]$/.test(before);
  return [isMappingLine ? 'found a tab character that violates indentation' : NO_TOKEN, line];
}

const badEscape: ErrorExplainer = (place) => [
  /^\\[xuU]/.test(rest(place)) ? 'did not find expected hexdecimal number' : 'found unknown escape character',
  place.line,
];

const EXPLAINERS: readonly (readonly [finding: RegExp, judge: ErrorExplainer])[] = [
  [/^Tabs /, tab],
  [/^Flow sequence/, flow(']')],
  [/^Flow map/, flow('}')],
  [/^Nested mappings/, nestedMapping],
  [/^Implicit map keys/, missingColon],
  [/^Implicit keys/, lateColon],
  [/^Missing closing/, ({ text }) => [NO_END, lineOfEnd(text)]],
  [/^Invalid escape/, badEscape],
  [/^(?:Alias|Anchor) cannot be an empty string/, scanner('did not find expected alphabetic or numeric character')],
  [/^Plain value cannot start/, scanner(NO_TOKEN)],
  [/^Block scalar header/, scanner('did not find expected comment or line break')],
  [/^Unexpected block-seq-ind/, scanner('block sequence entries are not allowed in this context')],
  [/^Unexpected (?:flow-(?:seq|map)-end|, in flow)/, parser(NO_CONTENT)],
  [/^Unexpected scalar|indent|same column|A block sequence may not/, missingEntry],
  [/^Unexpected \S+ at node end/, parser(NO_KEY)],
];

const withLine = (words: string, line: number): string => `${line > 0 ? `line ${line}: ` : ''}${words}`;
/** The scanner omits the line of an error in the first line. */
const scanned = (words: string, line: number): string => withLine(words, line > 1 ? line : 0);

/** The end marker of a document before any content, after blank lines and comments. */
const UNMATCHED_END = /^((?:[ \t]*(?:#[^\n]*)?\n)*)\.\.\.(?:\s|$)/;
const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[^])/g;

const isNoCharacter = (code: number): boolean => (code >= 0xd8_00 && code <= 0xdf_ff) || code > 0x10_ff_ff;

/** The Go reader's error for a document that this parser would accept, or null. */
export function earlyRefusal(text: string, document: Document): string | null {
  const before = UNMATCHED_END.exec(text)?.[1];
  if (before !== undefined) return withLine(NO_CONTENT, lineAt(before, before.length) - 1);
  let at: number | undefined;
  visit(document, {
    Scalar: (_, { type, range }) => {
      if (type !== 'QUOTE_DOUBLE' || !range || at !== undefined) return;
      const escapes = text.slice(range[0], range[1]).matchAll(ESCAPE);
      const wrong = [...escapes].find(([, four, eight]) => isNoCharacter(Number.parseInt(four ?? eight ?? '0', 16)));
      if (wrong !== undefined) at = range[0] + wrong.index;
    },
  });
  return at === undefined ? null : scanned('found invalid Unicode character escape code', lineAt(text, at));
}

/** The Go reader's error, without `yaml: `. */
export function explain({ message, linePos, pos }: YAMLParseError, text: string): string {
  const place = { text, at: pos[0], line: linePos?.[0].line ?? 1 };
  const judge = EXPLAINERS.find(([finding]) => finding.test(message))?.[1] ?? parser(withoutPlace(message));
  const [words, line] = judge(place);
  const isOfParser = [NO_KEY, NO_ENTRY, NO_CONTENT].includes(words) || words.startsWith(NO_SEPARATOR);
  return isOfParser ? withLine(words, line) : scanned(words, line);
}

function withoutPlace(message: string): string {
  return (message.split('\n')[0] ?? message).replace(/ at line [0-9]+, column [0-9]+:?$/, '');
}
