/** JSON of statistics: every `bigint` is written as a plain number, however large. */

// ECMAScript 2025; the library of types does not have it yet.
const { rawJSON } = JSON as unknown as { rawJSON(this: void, text: string): object };

/** `indent`: spaces a level; none makes one line. */
export const statsText = (value: unknown, indent = 0): string =>
  JSON.stringify(value, (_key, each: unknown) => (typeof each === 'bigint' ? rawJSON(String(each)) : each), indent);
