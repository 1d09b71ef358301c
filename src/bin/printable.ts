/**
 * Text for a terminal or a CI log that quotes foreign text: names and messages of pods, errors of registries, records
 * of a journal from anywhere.
 *
 * Invariants: characters that move the cursor, change colours or reverse the direction of text are quoted; no line is a
 * command to a CI (`::error …`, `##[…]`). Layout (line feeds and tabs) stays.
 */

/** Controls, marks of format and direction, separators of lines and paragraphs; not the layout. */
const CONTROLS = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const ORDERS = /^([ \t]*)(::|##\[)/gm;

const escaped = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
};

export const printable = (text: string): string => text.replace(CONTROLS, escaped).replace(ORDERS, '$1\\$2');

/** The value as one line of JSON with these characters escaped. They occur only within texts. */
export const printableJson = (value: unknown): string =>
  JSON.stringify(value).replace(CONTROLS, (characters) =>
    Array.from({ length: characters.length }, (_, at) => unit(characters.charCodeAt(at))).join(''),
  );

const unit = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`;

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

/** Rows in columns as wide as their widest cell, without a space at the end of a line. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const titles = columns.map(({ title }) => title);
  const all = titles.some((title) => title !== '') ? [titles, ...rows] : rows;
  const widths = columns.map((_, at) => Math.max(...all.map((row) => (row[at] ?? '').length), 0));
  const line = (row: readonly string[]): string =>
    columns
      .map(({ align }, at) => {
        const cell = row[at] ?? '';
        const width = widths[at] ?? 0;
        return align === 'right' ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  return all.map((row) => `${line(row)}\n`).join('');
}
