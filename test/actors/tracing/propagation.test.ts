/** The span of a piece of work in the calls that it makes, and the `traceparent` headers of clients that count. */
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { carrying, remoteSpan, traceparent, traceparentOf } from '../../../src/actors/tracing/propagation.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

it('calls of work that goes on later carry its span, and other calls none', async () => {
  const seen = await carrying('header', async () => {
    await pause(1);
    return traceparent();
  });
  expect(seen).toBe('header');
  expect(traceparent()).toBeUndefined();
  expect(carrying(null, traceparent)).toBeUndefined();
});

it('a header says which span it is of', () => {
  const header = `00-${TRACE}-${SPAN}-01`;
  expect(remoteSpan(header)).toEqual({ traceId: TRACE, spanId: SPAN, traceFlags: 1, isRemote: true });
  expect(traceparentOf(remoteSpan(header)!)).toBe(header);
  expect(remoteSpan(`00-${TRACE}-${SPAN}-fe`)?.traceFlags).toBe(0);
  expect(remoteSpan(`01-${TRACE}-${SPAN}-01-more`)?.traceId).toBe(TRACE);
});

it.each([
  '',
  'x',
  `ff-${TRACE}-${SPAN}-01`,
  `00-${'0'.repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${'0'.repeat(16)}-01`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}-01-more`,
  `01-${TRACE}-${SPAN}-01${'-'.repeat(1_000_000)}`,
])('a malformed header counts as none: %.60s', (header) => {
  expect(remoteSpan(header)).toBeNull();
});
