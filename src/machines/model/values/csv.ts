/**
 * Decides what the first record of comma-separated values is, and refuses it in the words of Go's `encoding/csv`, with
 * the place of the mistake in bytes.
 */
import type { Parsed } from './go-text.ts';

const BARE = 'bare " in non-quoted-field';
const STRAY = 'extraneous or missing " in quoted-field';

interface Reader {
  /** Lines with their ends, which are all `\n`. */
  readonly lines: readonly string[];
  /** Index of the line that is read, and of the next character in it. */
  line: number;
  column: number;
}

/** Empty lines before the record are skipped; what comes after it is not looked at. */
export function readCsvRecord(text: string): Parsed<readonly string[]> {
  const lines = text
    .replaceAll('\r\n', '\n')
    .replace(/\r$/, '')
    .split(/(?<=\n)/);
  const first = lines.findIndex((each) => each !== '\n' && each !== '');
  if (first < 0) return { error: 'EOF' };
  const reader: Reader = { lines, line: first, column: 0 };
  const fields: string[] = [];
  for (;;) {
    const isQuoted = rest(reader).startsWith('"');
    const field = isQuoted ? readQuoted(reader, first) : readBare(reader);
    if (field.error !== undefined) return field;
    fields.push(field.value);
    if (!rest(reader).startsWith(',')) return { value: fields };
    reader.column += 1;
  }
}

const rest = ({ lines, line, column }: Reader): string => (lines[line] ?? '').slice(column);

function refusal(reader: Reader, first: number, column: number, why: string): { readonly error: string } {
  const bytes = new TextEncoder().encode((reader.lines[reader.line] ?? '').slice(0, column)).length;
  const began = reader.line === first ? '' : `record on line ${first + 1}; `;
  return { error: `${began}parse error on line ${reader.line + 1}, column ${bytes + 1}: ${why}` };
}

function readBare(reader: Reader): Parsed<string> {
  const value = /^[^,\n]*/.exec(rest(reader))?.[0] ?? '';
  const quote = value.indexOf('"');
  if (quote >= 0) return refusal(reader, reader.line, reader.column + quote, BARE);
  reader.column += value.length;
  return { value };
}

function readQuoted(reader: Reader, first: number): Parsed<string> {
  reader.column += 1;
  let value = '';
  for (;;) {
    const part = /^[^"]*/.exec(rest(reader))?.[0] ?? '';
    value += part;
    reader.column += part.length;
    const [quote, next] = rest(reader);
    if (quote === undefined) {
      if (reader.line === reader.lines.length - 1) return refusal(reader, first, reader.column, STRAY);
      reader.line += 1;
      reader.column = 0;
    } else if (next === '"') {
      value += '"';
      reader.column += 2;
    } else if (next === undefined || next === ',' || next === '\n') {
      reader.column += 1;
      return { value };
    } else {
      return refusal(reader, first, reader.column, STRAY);
    }
  }
}
