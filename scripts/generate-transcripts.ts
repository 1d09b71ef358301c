/**
 * Writes the decisions into the stories of `test/transcripts`; their commands stay as they are.
 *
 * Usage: `node scripts/generate-transcripts.ts`. The unit tests hold that no story differs from what its machines decide.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { playStory, storyPaths } from '../test/support/transcripts/stories.ts';

for (const path of storyPaths()) {
  const story = readFileSync(path, 'utf8');
  writeFileSync(path, playStory(path, story));
}
