/**
 * The hashes of machines by their sources, in a bundle of them: `scripts/bundle.ts` puts them in the place of this empty
 * table. The text of a bundled function is not that of its source, so hashes made of it would say of the same machine
 * that it has changed, and a replay would compare less.
 */
export const SOURCE_HASHES: Readonly<Record<string, string>> = {};
