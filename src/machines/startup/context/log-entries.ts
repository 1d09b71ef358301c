/**
 * Decides which of upstream's stderr lines belong together: klog writes one header for an entry, and an error of
 * several lines stays in its entry (`err=<`, indented lines, ` >`). Pure.
 */
export interface LogEntry {
  /** The first line: what a list of entries shows. */
  readonly text: string;
  /** The whole entry as upstream formats it. */
  readonly klog: string;
}

export function logEntries(lines: readonly string[]): LogEntry[] {
  const entries: string[][] = [];
  for (const line of lines) {
    const last = entries.at(-1);
    if (last && (line.startsWith('\t') || line === ' >')) last.push(line);
    else entries.push([line]);
  }
  return entries.map((entry) => ({ text: entry[0] ?? '', klog: entry.join('\n') }));
}
