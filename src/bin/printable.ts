/**
 * Text for a terminal or a CI's log that quotes what others wrote: names and messages of pods, errors of registries,
 * records of a journal from anywhere.
 *
 * Invariants: no character that moves the cursor, colours, or turns the direction of reading gets through; no line is
 * an order to a CI (`::error …`, `##[…]`). Layout (line feeds and tabs) stays.
 */

/** Controls, marks of format and direction, separators of lines and paragraphs; not the layout. */
const CONTROLS = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const ORDERS = /^([ \t]*)(::|##\[)/gm;

const escaped = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
};

export const printable = (text: string): string => text.replace(CONTROLS, escaped).replace(ORDERS, '$1\\$2');

/** JSON of one line in which all such characters are escaped; outside of texts JSON has none of them. */
export const printableJson = (value: unknown): string =>
  JSON.stringify(value).replace(CONTROLS, (characters) =>
    Array.from({ length: characters.length }, (_, at) => unit(characters.charCodeAt(at))).join(''),
  );

const unit = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`;
