/** Aligns cells between tabs, line under line, as Go's text/tabwriter does for kubectl describe (padding of two). */

const PADDING = 2;

export function alignTabs(text: string): string {
  const lines = text.split('\n').map((line) => line.split('\t'));
  const widths: number[][] = lines.map(() => []);
  const format = (column: number, from: number, to: number): void => {
    for (let row = from; row < to; row++) {
      if (lines[row]!.length <= column + 1) continue;
      let end = row;
      while (end < to && lines[end]!.length > column + 1) end += 1;
      const width = Math.max(...lines.slice(row, end).map((cells) => cells[column]!.length)) + PADDING;
      for (let each = row; each < end; each++) widths[each]![column] = width;
      format(column + 1, row, end);
      row = end - 1;
    }
  };
  format(0, 0, lines.length);
  return lines.map((cells, row) => cells.map((cell, at) => cell.padEnd(widths[row]![at] ?? 0)).join('')).join('\n');
}
