/** How an agent treats pulls that an earlier agent did not finish. */
import { expect, it } from 'vitest';
import { imageOriginsMachine } from '../../../../src/machines/charts/images/image-origins.ts';
import { ok, runUnder } from '../../../support/answering-world.ts';

it('an intent that cannot be read is told, and the others are resolved', () => {
  const recorded: string[] = [];
  const image = { id: 'sha256:1', repo_tags: ['a.io/x:1'], repo_digests: [], size: '1', pinned: false };
  const answers = {
    'images.listIntents': ok({ images: ['a.io/x:1'], unread: ['sha256-0 is not a JSON object'] }),
    'cri.listImages': ok({ images: [image] }),
    'images.recordPulled': ({ imageRef }: { imageRef: string }) => {
      recorded.push(imageRef);
      return ok(null);
    },
  };
  const run = runUnder(imageOriginsMachine, { root: '/r' }, answers, []);
  run.time.advanceTo(run.time.now() + 10);
  expect(recorded).toEqual(['sha256:1']);
  expect(run.logged()).toEqual(['Cannot tell which images were being pulled when the agent ended']);
  expect(run.divergence()).toBeNull();
});
