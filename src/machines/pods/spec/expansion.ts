/**
 * `$(NAME)` references in environment, command, arguments and sub-paths.
 *
 * Invariants: one pass from left to right, results are not expanded again; `$$` is a literal dollar; an unknown name
 * stays as it is written.
 */

const REFERENCE = /\$(?:\$|\(([^)]*)\)|.|$)/gs;

/** `lookup` says `undefined` for an unknown name. */
export function expand(text: string, lookup: (name: string) => string | undefined): string {
  return text.replace(REFERENCE, (match, name: string | undefined) => {
    if (match === '$$') return '$';
    return name === undefined ? match : (lookup(name) ?? match);
  });
}

/** As {@link expand}, for places where an unknown name, or an empty value, is an error; also names these. */
export function expandStrictly(
  text: string,
  lookup: (name: string) => string | undefined,
): { readonly text: string; readonly missing: readonly string[] } {
  const missing: string[] = [];
  const expanded = expand(text, (name) => {
    const value = lookup(name);
    if (value === undefined || value === '') missing.push(name);
    return value;
  });
  return { text: expanded, missing };
}
