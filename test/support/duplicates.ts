/**
 * Finds duplicated code: runs of equal lines, in time linear in the input.
 *
 * Indentation is ignored; comments, empty lines and imports do not count.
 */
export interface Source {
  readonly path: string;
  readonly text: string;
}

interface Line {
  readonly text: string;
  /** The number of the line in its file, from 1. */
  readonly number: number;
}

/** `a.ts:10 and b.ts:20` for each place that repeats at least `size` lines of an earlier one. */
export function duplicates(sources: readonly Source[], size: number): string[] {
  const first = new Map<string, { readonly path: string; readonly at: number; readonly number: number }>();
  const found: string[] = [];
  for (const { path, text } of sources) {
    const lines = codeOf(text);
    let reportedUntil = 0;
    for (let at = 0; at + size <= lines.length; at++) {
      const run = lines.slice(at, at + size);
      const key = run.map((line) => line.text).join('\n');
      const earlier = first.get(key);
      const { number } = run[0]!;
      if (!earlier) first.set(key, { path, at, number });
      else if (at >= reportedUntil && !(earlier.path === path && at - earlier.at < size)) {
        found.push(`${earlier.path}:${earlier.number} and ${path}:${number}`);
        reportedUntil = at + size;
      }
    }
  }
  return found;
}

function codeOf(source: string): Line[] {
  const text = source
    .replace(/\/\*[\s\S]*?\*\//g, withoutText)
    .replace(/^(?:import|export) [^;=(]*? from '[^']*';$/gm, withoutText);
  return text
    .split('\n')
    .map((line, index) => ({ text: line.replace(/^\s*\/\/.*$/, '').trim(), number: index + 1 }))
    .filter((line) => line.text !== '');
}

/** Keeps the line breaks, so that the following lines keep their numbers. */
const withoutText = (part: string): string => part.replace(/[^\n]/g, '');
