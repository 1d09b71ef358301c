/** The exporter of traces, without which the node works, too. */
import { expect, it } from 'vitest';
import { nodeTracer } from '../../../src/actors/tracing/index.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';

it.each(['', 'a b', '[::1'])('an endpoint that is none (%j) costs the traces alone', async (endpoint) => {
  const said: string[] = [];
  const tracer = nodeTracer('v1', (sentence) => said.push(sentence));
  const context = { config: { tracing: { endpoint } }, node: { nodeName: 'n' } };
  const kernel = { snapshotOf: () => ({ context }) } as unknown as Kernel;
  tracer.onTurn([], kernel);
  await expect.poll(() => said, { timeout: 10_000 }).toEqual([`no traces are exported to "${endpoint}": Invalid URL`]);
  tracer.onTurn([], kernel);
  await tracer.close();
});
