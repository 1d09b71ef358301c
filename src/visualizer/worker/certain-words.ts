/**
 * The words of which every text that a search matches has one: a search looks for them before it reads a record. Pure.
 *
 * Of an expression they are the longest stretch of plain characters in it, and of an alternative of plain words each of
 * them: `/cri\.(stop|start)/` has `cri.stop` and `cri.start`.
 */

/** Words of one search; an expression with more alternatives is looked for without them. */
const WORDS_MAX = 8;
/** Escapes that stand for other characters than the next one. */
const UNREAD_ESCAPES = /\\[xpPQEC\d]/;
/** A part of an expression: an escape, a class, a group, or a character, and how often it is there. */
const PARTS = /(\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|\((?:\\.|[^()\\])*\)|[^\\[\]()])([*?+]|\{[^{}]*\})?/gsy;
const PLAIN = /^[\w.-]$/;
const GROUP = /^\((?:\?:)?((?:[\w-]|\\\.)+(?:\|(?:[\w-]|\\\.)+)*)\)$/;

/** Of a word that is no expression, it is the word itself. Empty: there is none. */
export function certainWords(word: string): readonly string[] {
  const [, pattern] = /^\/(.+)\/$/s.exec(word) ?? [];
  if (pattern === undefined) return [word];
  if (UNREAD_ESCAPES.test(pattern)) return [];
  const parts = [...pattern.matchAll(PARTS)];
  // Groups in groups, flags, and what is no expression.
  if (parts.map(([text]) => text).join('') !== pattern || pattern.includes('(?') !== pattern.includes('(?:')) return [];
  const runs: (readonly string[])[] = [];
  let run: readonly string[] = [''];
  for (const [, part = '', times] of parts) {
    if (part === '|') return [];
    const choices = times === undefined || times === '+' ? textsOf(part) : undefined;
    if (choices && choices.length * run.length <= WORDS_MAX)
      run = run.flatMap((text) => choices.map((end) => text + end));
    else {
      runs.push(run);
      run = choices ?? [''];
    }
    if (times === '+') {
      runs.push(run);
      run = [''];
    }
  }
  return longest([...runs, run]);
}

/** The plain texts that a part stands for; undefined: it is not plain. */
function textsOf(part: string): readonly string[] | undefined {
  if (part === '.') return undefined;
  if (PLAIN.test(part)) return [part];
  if (part.startsWith('\\')) return /^[.-]$/.test(part.slice(1)) ? [part.slice(1)] : undefined;
  const [, inside] = GROUP.exec(part) ?? [];
  return inside?.replaceAll('\\.', '.').split('|');
}

const shortest = (run: readonly string[]): number => Math.min(...run.map((text) => text.length));

function longest(runs: readonly (readonly string[])[]): readonly string[] {
  const found = runs.reduce((one, other) => (shortest(other) > shortest(one) ? other : one), ['']);
  return found.includes('') ? [] : found;
}
