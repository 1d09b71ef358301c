/** Decides how paths are joined and cleaned, as Go's `path/filepath` does on Linux. */

/** `filepath.Clean`: no empty or `.` element, `..` resolved where something is before it. */
export function cleanPath(path: string): string {
  const absolute = path.startsWith('/');
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..' && parts.length > 0 && parts.at(-1) !== '..') parts.pop();
    else if (part !== '..' || !absolute) parts.push(part);
  }
  const joined = parts.join('/');
  if (absolute) return `/${joined}`;
  return joined === '' ? '.' : joined;
}

/** `filepath.Join`. */
export function joinPath(...parts: readonly string[]): string {
  const given = parts.filter((part) => part !== '');
  return given.length === 0 ? '' : cleanPath(given.join('/'));
}

/** `filepath.Dir`. */
export function directoryOf(path: string): string {
  return cleanPath(path.slice(0, path.lastIndexOf('/') + 1) || '.');
}
