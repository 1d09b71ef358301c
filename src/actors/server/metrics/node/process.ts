/** Gauges of this process that Prometheus' client does not have, from the kernel's own files. */
import { readFileSync } from 'node:fs';
import type { Family } from '../family.ts';

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Columns of /proc/net/dev after the name: eight of what came in, then eight of what went out. */
const SENT_COLUMN = 8;

export function processFamilies(): Family[] {
  const interfaces = read('/proc/self/net/dev')
    .split('\n')
    .flatMap((line) => /^\s*[^:\s]+:(.*)$/.exec(line)?.[1] ?? [])
    .map((columns) => columns.trim().split(/\s+/).map(Number));
  const sum = (column: number) => interfaces.reduce((total, columns) => total + (columns[column] ?? 0), 0);
  const limit = /^Max address space\s+(\d+)/m.exec(read('/proc/self/limits'))?.[1];
  const family = (name: string, help: string, type: Family['type'], value: number): Family => ({
    name,
    help,
    type,
    samples: [{ labels: {}, value }],
  });
  return [
    family(
      'process_network_receive_bytes_total',
      'Number of bytes received by the process over the network.',
      'counter',
      sum(0),
    ),
    family(
      'process_network_transmit_bytes_total',
      'Number of bytes sent by the process over the network.',
      'counter',
      sum(SENT_COLUMN),
    ),
    family(
      'process_virtual_memory_max_bytes',
      'Maximum amount of virtual memory available in bytes.',
      'gauge',
      limit === undefined ? 2 ** 64 : Number(limit),
    ),
  ];
}
