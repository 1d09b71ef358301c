/**
 * The hashes of machines by their sources, in a bundle of them: `scripts/bundle.ts` puts these into this empty table.
 * The text of a bundled function is not that of its source. A hash made of it would differ for the same machine, and a
 * replay would compare less.
 */
export const SOURCE_HASHES: Readonly<Record<string, string>> = {};
