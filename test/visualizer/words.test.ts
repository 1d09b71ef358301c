/** The page's texts for durations, states and records. */
import { expect, it } from 'vitest';
import { stepRanges } from '../../src/visualizer/words.ts';

it.each([
  ['S114', 'S114'],
  ['S216, S217, S218, S221', 'S216–S218, S221'],
  ['S239, S241-S244', 'S239, S241–S244'],
  ['S001-S003, S004', 'S001–S004'],
  ['', ''],
])('writes the steps %j as %j', (steps, text) => {
  expect(stepRanges(steps)).toBe(text);
});
