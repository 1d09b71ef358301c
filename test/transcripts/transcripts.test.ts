/** Each story of this folder is played: its text must have the decisions of today's machines. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { playStory, storyPaths } from '../support/transcripts/stories.ts';

it.each(storyPaths().map((path) => [path]))('%s', (path) => {
  const story = readFileSync(path, 'utf8');
  expect(playStory(path, story)).toBe(story);
});
