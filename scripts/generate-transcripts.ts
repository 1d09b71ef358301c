/**
 * Writes the decisions into the transcripts of `test/transcripts`, and leaves their commands unchanged.
 *
 * Usage: `node scripts/generate-transcripts.ts`. The unit tests require that each transcript has the decisions that its
 * machines make.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { playStory, storyPaths } from '../test/support/transcripts/stories.ts';

for (const path of storyPaths()) {
  const story = readFileSync(path, 'utf8');
  writeFileSync(path, playStory(path, story));
}
