/** The part of `node:path` that the journal's reader uses: for short names below one folder. */
export const basename = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
export const dirname = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));
export const join = (...parts: readonly string[]): string => parts.join('/');
