/**
 * Columns of text for a terminal: as wide as their widest cell, numbers to the right, no space at the end of a line.
 */

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const titles = columns.map(({ title }) => title);
  const all = titles.some((title) => title !== '') ? [titles, ...rows] : rows;
  const widths = columns.map((_, at) => Math.max(...all.map((row) => (row[at] ?? '').length), 0));
  const line = (row: readonly string[]): string =>
    columns
      .map(({ align }, at) => {
        const cell = row[at] ?? '';
        const width = widths[at] ?? 0;
        return align === 'right' ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  return all.map((row) => `${line(row)}\n`).join('');
}
