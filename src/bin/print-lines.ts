/** Prints lines in upstream's form, each entry of the log under one klog header. */
import { printLine } from '../actors/log/logger.ts';
import type { LogLevel } from '../kernel/records.ts';
import { logEntries } from '../machines/startup/context/log-entries.ts';

export function printLines(level: LogLevel, lines: readonly string[]): void {
  for (const { text, klog } of logEntries(lines)) printLine(level, 'statelet', text, { klog });
}
