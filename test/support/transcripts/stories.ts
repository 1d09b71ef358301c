/** The stories of `test/transcripts`: a folder for each chart, a file for each story. */
import { globSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { EvictionStage } from './eviction-stage.ts';
import { PodsStage } from './pods-stage.ts';
import { play, type Stage } from './script.ts';
import { StartupStage } from './startup-stage.ts';

const FOLDER = join(import.meta.dirname, '../../transcripts');

const STAGES: Readonly<Record<string, () => Stage>> = {
  pod: () => new PodsStage(['pod']),
  container: () => new PodsStage(['container']),
  image: () => new PodsStage(['image', 'container']),
  eviction: () => new EvictionStage(),
  startup: () => new StartupStage(),
};

export const storyPaths = (): string[] => globSync(join(FOLDER, '*/*.txt')).toSorted();

/** The text of the story with the decisions of today's machines. */
export function playStory(path: string, story: string): string {
  const chart = basename(dirname(path));
  const makeStage = STAGES[chart];
  if (!makeStage) throw new Error(`there is no stage for stories about "${chart}"`);
  return play(story, makeStage());
}
