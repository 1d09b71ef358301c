/** Whether the requests of a port are traced. */
import type { IncomingMessage } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import type { TracingConfiguration } from '../../../src/actors/tracing/provider.ts';
import { RequestTracing } from '../../../src/actors/tracing/request-tracing.ts';

function tracingOf(configuration: () => Promise<{ readonly tracing?: TracingConfiguration }>) {
  const said: string[] = [];
  const options = { view: { configuration }, program: { version: 'v1' }, warn: (line: string) => void said.push(line) };
  const tracing = new RequestTracing(options, 'node1', false);
  onTestFinished(() => tracing.close());
  const raw = { headers: {}, socket: {}, httpVersion: '1.1' } as unknown as IncomingMessage;
  return { said, begin: () => tracing.begin('/pods', { method: 'GET', path: '/pods', raw }) };
}

it('without tracing a request has no span', async () => {
  const { said, begin } = tracingOf(async () => ({}));
  await new Promise(setImmediate);
  expect(begin()).toBeNull();
  expect(said).toEqual([]);
});

it('with tracing it has one, whether or not the collector is there', async () => {
  const { begin } = tracingOf(async () => ({
    tracing: { endpoint: '127.0.0.1:1', samplingRatePerMillion: 1_000_000 },
  }));
  expect(begin()).toBeNull();
  await expect.poll(begin, { timeout: 20_000 }).toMatchObject({ traceparent: expect.stringMatching(/-01$/) as string });
  begin()!.end(200);
});

it('an exporter that cannot be opened costs the spans alone', async () => {
  const { said, begin } = tracingOf(async () => ({ tracing: { endpoint: 'a b' } }));
  await expect.poll(() => said, { timeout: 20_000 }).toEqual(['requests are not traced: Invalid URL']);
  expect(begin()).toBeNull();
});
