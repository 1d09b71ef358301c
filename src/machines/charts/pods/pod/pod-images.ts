/** Requests the images of a pod's containers, with the pod's pull secrets. Part of the chart of `pod.ts`. */

import { to } from '../../../../kernel/xstate.ts';
import type { Pod } from '../../../model/api/pod.ts';
import { objectKey } from '../../../model/objects/config-objects.ts';
import type { ImageWanted } from '../../../model/pods/image-messages.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { pullPolicy } from '../../../model/spec/image.ts';
import { sandboxConfig } from '../../../model/spec/sandbox.ts';
import { valueIn } from '../../../model/values/tables.ts';
import { usesOf } from '../../../model/volumes/plan.ts';
import type { PodContext } from './pod-context.ts';
import { awaitsObjects, membersOf } from './pod-members.ts';
import { podOrName, refOf } from './pod-policy.ts';
import { podSetup as s, sendToContainer } from './pod-setup.ts';
import { arePredecessorsPassed, containersWithDelayedImage, nextAttempt, runRefusal } from './pod-start-order.ts';

/** No image is pulled for a pod that cannot run here, or before the pod's secrets are known. */
const isTooEarly = (context: PodContext): boolean => awaitsObjects(context) || runRefusal(context) !== null;

const isEnding = ({ kill, stage }: PodContext): boolean => kill !== null || stage !== 'sync';

/** Requests the image each time a container wants it, as upstream does at each sync of the pod. */
export const requestImage = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'container.imageWanted' || isTooEarly(context) || isEnding(context)) return;
  const { name: container, image, policy, ref } = event;
  if (!arePredecessorsPassed(context, container))
    return enqueue.assign({ containers: withImageDelay(context, [container], true) });
  const { secrets, missing } = pullSecrets(context);
  if (missing.length > 0) {
    const text = podEvents.failedToRetrieveImagePullSecret(missing.join(', '));
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  }
  const pod = podOrName(context);
  const ask = (wanted: Pick<ImageWanted, 'container' | 'image' | 'policy' | 'ref' | 'user'>): void =>
    enqueue.sendTo(to('images'), {
      type: 'image.wanted',
      uid: context.uid,
      ...wanted,
      secrets,
      serviceAccount: pod.spec.serviceAccountName ?? '',
      annotations: { ...pod.metadata.annotations },
      sandboxConfig: sandboxConfig(pod, newestAttempt(context), context.node),
      remembered: context.pulls[wanted.image] ?? null,
    });
  ask({ container, image, policy, ref });
  const volumes = imageVolumes(context, container);
  if (volumes.length > 0) enqueue.assign({ images: { ...context.images, [container]: {} } });
  for (const { name, reference, pullPolicy } of volumes) {
    ask({ container: `${container}/${name}`, image: reference, policy: pullPolicy, ref: refOf(context), user: ref });
  }
  for (const { name, reference, pullPolicy } of unmountedImages(context, container)) {
    ask({ container: `/${name}`, image: reference, policy: pullPolicy, ref: refOf(context), user: null });
  }
});

/** Images of volumes that no container mounts are pulled with that of the first container; nothing waits for them. */
function unmountedImages(context: PodContext, container: string) {
  const pod = podOrName(context);
  const members = membersOf(pod);
  if (members[0]?.container.name !== container || !hasBehavior(context.node, 'imagesAsKubelet')) return [];
  const { mounts } = usesOf(pod);
  return imagesOfVolumes(pod, (name) => !mounts.has(name));
}

const withImageDelay = ({ containers }: PodContext, names: readonly string[], isEarly: boolean) => ({
  ...containers,
  ...Object.fromEntries(
    names.flatMap((name) => {
      const record = valueIn(containers, name);
      return record ? [[name, { ...record, isEarly }]] : [];
    }),
  ),
});

/** Containers whose predecessors are all passed now request their images. */
export const requestDelayedImages = s.enqueueActions(({ context, enqueue }) => {
  const names = containersWithDelayedImage(context);
  enqueue.assign({ containers: withImageDelay(context, names, false) });
  for (const name of names) sendToContainer(enqueue, name, { type: 'images.started' });
});

/** A container with image volumes gets the report on its own image once the images of its volumes exist too. */
export const forwardImage = s.enqueueActions(({ event, context, enqueue }) => {
  if (event.type === 'images.started') {
    for (const name of Object.keys(context.containers)) sendToContainer(enqueue, name, event);
  }
  if (event.type !== 'image.ready' && event.type !== 'image.failed') return;
  const [container = '', volume = ''] = event.container.split('/');
  if (container === '' && event.type === 'image.ready' && event.image.event) {
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), event.image.event));
  }
  if (!valueIn(context.containers, container)) return;
  const volumes = imageVolumes(context, container);
  if (event.of !== wantedImage(context, container, volume)) return;
  if (event.type === 'image.failed') {
    sendToContainer(enqueue, container, { ...event, container });
    return;
  }
  const text = event.image.event;
  if (volume !== '' && text) enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  const known = { ...valueIn(context.images, container), [volume]: event.image };
  if (volumes.length > 0) enqueue.assign({ images: { ...context.images, [container]: known } });
  const image = known[''];
  if (image === undefined || volumes.some(({ name }) => !Object.hasOwn(known, name))) return;
  sendToContainer(enqueue, container, { ...event, container, image });
});

/** The image that is wanted now; an answer for an outdated definition is dropped. */
function wantedImage(context: PodContext, container: string, volume: string): string {
  if (volume !== '') return imageVolumes(context, container).find(({ name }) => name === volume)?.reference ?? '';
  return membersOf(podOrName(context)).find((each) => each.container.name === container)?.container.image ?? '';
}

function imageVolumes(context: PodContext, container: string) {
  const member = membersOf(podOrName(context)).find((each) => each.container.name === container);
  const mounted = new Set((member?.container.volumeMounts ?? []).map(({ name }) => name));
  return imagesOfVolumes(podOrName(context), (name) => mounted.has(name));
}

const imagesOfVolumes = (pod: Pod, isWanted: (volume: string) => boolean) =>
  (pod.spec.volumes ?? []).flatMap(({ name, image }) => {
    if (image === undefined || !isWanted(name)) return [];
    const { reference = '' } = image;
    const policy = pullPolicy({ image: reference, ...(image.pullPolicy ? { imagePullPolicy: image.pullPolicy } : {}) });
    return [{ name, reference, pullPolicy: policy }];
  });

/** The secrets are known now: containers that wait for their image request it again. */
export const requestImagesAgain = s.enqueueActions(({ context, enqueue }) => {
  if (isTooEarly(context)) return;
  for (const [name, { view, request }] of Object.entries(context.containers)) {
    if (view.phase === 'waiting' && request === null) sendToContainer(enqueue, name, { type: 'images.started' });
  }
});

const newestAttempt = (context: PodContext): number =>
  context.runtime?.sandboxes[0]?.metadata?.attempt ?? nextAttempt(context);

/** An entry without a name is valid for the API server, and means nothing. */
function pullSecrets({ pod, namespace, objects }: PodContext) {
  const names = (pod?.spec.imagePullSecrets ?? []).flatMap(({ name }) => (name ? [name] : []));
  const found = names.map((name) => ({ name, secret: objects[objectKey('Secret', namespace, name)] }));
  return {
    secrets: found.flatMap(({ secret }) => secret ?? []),
    missing: found.flatMap(({ name, secret }) => (secret ? [] : [name])),
  };
}
