/** Runs one host port in a separate process: `node host-child.ts <operation> <input JSON> <ffi|programs> [then]`. */
import { readFileSync } from 'node:fs';
import { hostPorts } from '../../src/actors/host/index.ts';
import type { Port } from '../../src/kernel/operation.ts';

const [operation = '', input = '{}', road = 'ffi', then = ''] = process.argv.slice(2);
const ports: Readonly<Record<string, Port<unknown>>> = hostPorts(road === 'ffi' ? {} : { system: null });
const call = { id: 1, input: JSON.parse(input), resume: false, signal: new AbortController().signal, emit: () => {} };
await ports[operation]?.(call as never);
console.log(then === 'limits' ? readFileSync('/proc/self/limits', 'utf8') : 'done');
if (then === 'stay') setInterval(() => {}, 1_000);
