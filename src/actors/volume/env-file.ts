/**
 * The value of a key in a file of variables, in the form that the kubelet takes: a small part of the shell's.
 *
 * `NAME='value'`, one after the other; the value stands as it is, over several lines if it must. A line that is blank
 * or begins with `#` is nothing, and neither is what follows `#` after the closing quote. Upstream:
 * pkg/kubelet/util/env. Invariant: what stands behind the key that is asked for is not looked at.
 */

/** Upstream's scanner takes no longer line, bytes. */
const MAX_LINE_BYTES = 65_536;
const BLANKS = /^[ \t]+/;

/** Empty: it has no such key, or nothing under it. Throws where a line before it is in another form. */
export function valueInEnvFile(text: string, key: string): string {
  const lines = linesOf(text);
  for (let at = 0; at < lines.length; at += 1) {
    const line = lineAt(lines, at).replace(BLANKS, '');
    if (line === '' || line.startsWith('#')) continue;
    const { name, rest } = assignment(line, at);
    if (BLANKS.test(rest)) {
      if (name === key) return '';
      continue;
    }
    const { value, end } = quoted(lines, rest, at);
    if (name === key) return value;
    at = end;
  }
  return '';
}

/** As a scanner of Go sees them: the end of the text is no line of its own. */
function linesOf(text: string): readonly string[] {
  const lines = text.split('\n').map((line) => line.replace(/\r$/, ''));
  return lines.at(-1) === '' ? lines.slice(0, -1) : lines;
}

function lineAt(lines: readonly string[], at: number): string {
  const line = lines[at] ?? '';
  if (Buffer.byteLength(line) >= MAX_LINE_BYTES) throw wrong(at, 'the line is too long');
  return line;
}

const wrong = (at: number, why: string): Error =>
  new Error(`invalid environment variable format at line ${at + 1}: ${why}`);

function assignment(line: string, at: number): { readonly name: string; readonly rest: string } {
  const sign = line.indexOf('=');
  if (sign === -1) throw wrong(at, "missing '='");
  const name = line.slice(0, sign);
  if (name === '') throw wrong(at, 'empty variable name');
  if (/[ \t]$/.test(name)) throw wrong(at, "whitespace before '=' is not allowed");
  return { name, rest: line.slice(sign + 1) };
}

/** What stands in quotes, and the line where they close. */
function quoted(
  lines: readonly string[],
  first: string,
  begin: number,
): { readonly value: string; readonly end: number } {
  if (!first.startsWith("'")) throw wrong(begin, 'value must be enclosed in single quotes');
  const parts: string[] = [];
  let rest = first.slice(1);
  for (let at = begin; ; ) {
    const close = rest.indexOf("'");
    if (close !== -1) {
      const after = rest.slice(close + 1).replace(BLANKS, '');
      if (after !== '' && !after.startsWith('#')) throw wrong(at, 'unexpected content after closing quote');
      return { value: [...parts, rest.slice(0, close)].join('\n'), end: at };
    }
    parts.push(rest);
    at += 1;
    if (at >= lines.length) throw wrong(begin, 'unclosed single quote');
    rest = lineAt(lines, at);
  }
}
