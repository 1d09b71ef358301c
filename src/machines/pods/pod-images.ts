/** A pod asks for the images of its containers, with the pull secrets that it has. Part of `pod.ts`. */
import { to } from '../../kernel/xstate.ts';
import { podEvents } from '../reasons.ts';
import { eventRecorded } from './messages.ts';
import { isAwaiting } from './pod-objects.ts';
import { type PodContext, podOrName, refOf } from './pod-policy.ts';
import { order, podSetup as s } from './pod-setup.ts';
import { impossibility, nextAttempt } from './pod-turns.ts';
import { sandboxConfig } from './spec/index.ts';
import { objectKey } from './volumes/objects.ts';

/** It will not be pulled for a pod that cannot run here, and not before the pod's secrets are known. */
const isTooEarly = (context: PodContext): boolean => isAwaiting(context) || impossibility(context) !== null;

/** Each time somebody asks, as upstream does each time it looks after the pod. */
export const askImage = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'container.imageWanted' || isTooEarly(context)) return;
  const { name: container, image, policy, ref } = event;
  const { secrets, missing } = pullSecrets(context);
  if (missing.length > 0) {
    const text = podEvents.failedToRetrieveImagePullSecret(missing);
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  }
  const pod = podOrName(context);
  enqueue.sendTo(to('images'), {
    type: 'image.wanted',
    uid: context.uid,
    container,
    image,
    policy,
    ref,
    secrets,
    annotations: { ...pod.metadata.annotations },
    sandboxConfig: sandboxConfig(pod, newestAttempt(context), context.node),
    remembered: context.pulls[image] ?? null,
  });
});

/** The secrets are known now: who still waits for its image asks again. */
export const askImagesAgain = s.enqueueActions(({ context, enqueue }) => {
  if (isTooEarly(context)) return;
  for (const [name, { view, wish }] of Object.entries(context.containers)) {
    if (view.phase === 'waiting' && wish === null) order(enqueue, name, { type: 'images.started' });
  }
});

const newestAttempt = (context: PodContext): number =>
  context.runtime?.sandboxes[0]?.metadata?.attempt ?? nextAttempt(context);

/** An entry without a name is let through by the API server, and means nothing. */
function pullSecrets({ pod, namespace, objects }: PodContext) {
  const names = (pod?.spec.imagePullSecrets ?? []).flatMap(({ name }) => (name ? [name] : []));
  const found = names.map((name) => ({ name, secret: objects[objectKey('Secret', namespace, name)] }));
  return {
    secrets: found.flatMap(({ secret }) => secret ?? []),
    missing: found.flatMap(({ name, secret }) => (secret ? [] : [name])),
  };
}
