/** Tables for reserved resources: amounts in canonical form, and upstream's texts of errors. */
import { expect, it } from 'vitest';
import { parseReservedResources } from '../../../../src/machines/configuration/validation/resource-managers.ts';

it('reserves known resources, in canonical amounts and the order of their names', () => {
  const parsed = parseReservedResources({ pid: '1000', memory: '1024Mi', cpu: '0.5' });
  expect(JSON.stringify(parsed)).toBe('{"value":{"cpu":"500m","memory":"1Gi","pid":"1k"}}');
});

it.each([
  [{ gpu: '1' }, 'cannot reserve "gpu" resource'],
  [{ cpu: '-1' }, 'resource quantity for "cpu" cannot be negative: -1'],
  [{ memory: 'much' }, 'failed to parse quantity "much" for "memory" resource: '],
])('refuses %j', (settings, error) => {
  expect(parseReservedResources(settings).error).toContain(error);
});
