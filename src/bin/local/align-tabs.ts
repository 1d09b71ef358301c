/** Aligns the cells between tabs, line under line, as Go's text/tabwriter does for kubectl describe. */

/** Spaces between two columns. */
const PADDING = 2;

interface Line {
  readonly cells: readonly string[];
  readonly widths: number[];
}

export function alignTabs(text: string): string {
  const lines = text.split('\n').map((line): Line => ({ cells: line.split('\t'), widths: [] }));
  const hasNextCell = (row: number, column: number): boolean => (lines[row]?.cells.length ?? 0) > column + 1;
  const format = (column: number, from: number, to: number): void => {
    for (let row = from; row < to; row++) {
      if (!hasNextCell(row, column)) continue;
      let end = row;
      while (end < to && hasNextCell(end, column)) end += 1;
      const block = lines.slice(row, end);
      const width = Math.max(...block.map(({ cells }) => cells[column]?.length ?? 0)) + PADDING;
      for (const { widths } of block) widths[column] = width;
      format(column + 1, row, end);
      row = end - 1;
    }
  };
  format(0, 0, lines.length);
  return lines.map(({ cells, widths }) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('')).join('\n');
}
