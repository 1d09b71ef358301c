/** Requirements of node affinity. */
import { describe, expect, it } from 'vitest';
import { matches } from '../../../../src/machines/model/allocation/node-match.ts';

describe('a label named like what every object has', () => {
  const requirement = (operator: string) => ({ key: 'constructor', operator, values: ['x'] });

  it.each([
    ['Exists', false],
    ['DoesNotExist', true],
    ['In', false],
    ['NotIn', true],
  ])('of a node without it: %s is %s', (operator, isMatch) => {
    expect(matches(requirement(operator), {})).toBe(isMatch);
  });

  it.each([
    ['Exists', true],
    ['DoesNotExist', false],
    ['In', true],
    ['NotIn', false],
  ])('of a node with it: %s is %s', (operator, isMatch) => {
    expect(matches(requirement(operator), { constructor: 'x' })).toBe(isMatch);
  });
});
