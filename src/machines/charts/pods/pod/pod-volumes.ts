/**
 * The volumes of a pod, and the credentials in them (service account tokens, certificates): the actor that sets volumes
 * up, one actor for each credential, and how both end with the pod. Part of the chart of `pod.ts`.
 */

import { type AnyActorRef, childIn, errorOf, line, reapChild, to } from '../../../../kernel/xstate.ts';
import type { CSIReleased } from '../../../model/csi/messages.ts';
import { podDirectory } from '../../../model/spec/paths.ts';
import { certificatesOf, serviceAccountOf, tokensOf } from '../../../model/volumes/credentials.ts';
import { volumePlan } from '../../../model/volumes/plan.ts';
import type { VolumesOrder } from '../volumes/volumes.ts';
import type { PodContext } from './pod-context.ts';
import { awaitsObjects, unavailable } from './pod-members.ts';
import { sendRemembered } from './pod-node.ts';
import { podOrName, refOf } from './pod-policy.ts';
import { type Enqueue, podSetup as s } from './pod-setup.ts';

const ACTOR = 'volumes';
/** The pause before a crashed actor, of the volumes or of a credential, is replaced. */
const RESPAWN_MS = 1_000;

export const volumesPlace = (context: PodContext) => ({
  root: context.node.rootDir,
  podDirectory: podDirectory(podOrName(context), context.node),
});

/**
 * Plans the volumes. A pod whose volumes need no set-up has no actor for them. Mounted volumes stay while their plan is
 * the same.
 */
function sendPlan(enqueue: Enqueue, context: PodContext): void {
  if (awaitsObjects(context)) return;
  const { node, objects } = context;
  const next = volumePlan({ pod: podOrName(context), node, objects, unavailable: unavailable(context) });
  if (!context.hasVolumes && next.setUps.length + next.csi.length + next.failures.length === 0) {
    enqueue.assign({ volumes: next.mounted });
    return;
  }
  const isSame = JSON.stringify(next.mounted) === JSON.stringify(context.volumes);
  enqueue.assign({ hasVolumes: true, volumes: isSame ? context.volumes : null });
  if (context.hasVolumes) {
    enqueue.sendTo<AnyActorRef>(ACTOR, { type: 'volumes.planned', plan: next } satisfies VolumesOrder);
  } else {
    const serviceAccount = serviceAccountOf(podOrName(context));
    const input = { ref: refOf(context), ...volumesPlace(context), serviceAccount, plan: next };
    enqueue.spawnChild(ACTOR, { id: ACTOR, input });
  }
}

export const planVolumes = s.enqueueActions(({ context, enqueue }) => {
  requestCredentials(enqueue, context);
  sendPlan(enqueue, context);
});

/** No volume is set up before the pod may run; volumes that are set up follow their objects. */
const mayPlan = ({ pod, stage, hasVolumes }: PodContext, isToRun: boolean): boolean =>
  pod !== null && stage === 'sync' && (isToRun || hasVolumes);

const noteFound = (isToRun: boolean) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    if (event.type !== 'object.found') return;
    const { key } = event;
    const { [key]: before, ...others } = context.objects;
    const kept = event.state === 'unknown' && before ? { [key]: before } : {};
    const objects = { ...others, ...(event.state === 'found' ? { [key]: event.object } : kept) };
    const lookups = { ...context.lookups, [key]: event.state === 'unknown' ? event.message : '' };
    enqueue.assign({ objects, lookups });
    if (!mayPlan(context, isToRun)) return;
    const next = { ...context, objects, lookups };
    sendPlan(enqueue, next);
    const isRenewed = before !== undefined && objects[key]?.kind === 'Token' && objects[key].version !== before.version;
    if (isRenewed && context.volumes !== null) sendRemembered(enqueue, next);
  });

/** The API server's answer about an object that this pod uses, or about its own token. */
export const noteObject = noteFound(false);
/** As {@link noteObject}, for a pod that is to run. */
export const handleObject = noteFound(true);

const noteChanged = (isToRun: boolean) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    if (event.type !== 'objects.changed') return;
    const { objects } = event;
    enqueue.assign({ objects });
    if (mayPlan(context, isToRun)) sendPlan(enqueue, { ...context, objects });
  });

/** A ConfigMap or Secret was added, changed or removed. */
export const noteObjects = noteChanged(false);
/** As {@link noteObjects}, for a pod that is to run. */
export const handleObjects = noteChanged(true);

/** Forwards reports on volumes of CSI drivers to the actor that requested them. */
export const forwardPublished = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'csi.mounted' && event.type !== 'csi.started') return;
  if (context.hasVolumes) enqueue.sendTo<AnyActorRef>(ACTOR, event);
});

/** Releases also the volumes that an earlier agent published, which are recorded on disk. */
export const releasePublished = s.enqueueActions(({ context: { uid }, enqueue }) => {
  enqueue.sendTo(to('csiVolumes'), { type: 'csi.released', uid } satisfies CSIReleased);
});

export const noteMounted = s.assign({
  volumes: ({ context, event }) => (event.type === 'volumes.mounted' ? event.mounted : context.volumes),
});

/** The actor of the volumes crashed: its successor sets up the missing volumes. */
export const replaceVolumes = s.enqueueActions(({ context, event, enqueue }) => {
  const { message } = errorOf(event);
  enqueue(
    line('error', ['The actor of a pod’s volumes crashed and starts again', { uid: context.uid, error: message }]),
  );
  enqueue.assign({ hasVolumes: false });
  reapChild(enqueue, ACTOR, { type: 'volumes.lost' }, RESPAWN_MS);
});

/** Ends the actors of the volumes, which the pod no longer uses. */
export const releaseVolumes = s.enqueueActions(({ context, enqueue }) => {
  if (context.hasVolumes) enqueue.stopChild(ACTOR);
  releaseCredentials(enqueue, context);
  enqueue.assign({ hasVolumes: false, volumes: null });
});

/** Each credential has an actor for as long as the pod lives. */
function requestCredentials(enqueue: Enqueue, context: PodContext): void {
  const pod = podOrName(context);
  const { uid, namespace, name, node } = context;
  const shared = { pod: { uid, namespace, name }, serviceAccount: serviceAccountOf(pod) };
  const credentials = { ...context.credentials };
  for (const [key, source] of Object.entries(tokensOf(pod))) {
    if (credentials[key] !== undefined) continue;
    const id = unusedId('token', credentials);
    enqueue.spawnChild('token', { id, input: { ...shared, key, source } });
    credentials[key] = id;
  }
  for (const [key, source] of Object.entries(node.apiServer?.podCertificates === true ? certificatesOf(pod) : {})) {
    if (credentials[key] !== undefined) continue;
    const id = unusedId('certificate', credentials);
    const input = { ...shared, ref: refOf(context), nodeName: node.nodeName, key, source };
    enqueue.spawnChild('certificate', { id, input });
    credentials[key] = id;
  }
  enqueue.assign({ credentials });
}

function unusedId(kind: 'token' | 'certificate', credentials: PodContext['credentials']): string {
  const taken = new Set(Object.values(credentials));
  let at = 0;
  while (taken.has(`${kind}-${at}`)) at += 1;
  return `${kind}-${at}`;
}

/** The actor of a credential crashed: it is replaced when the volumes are planned again. */
export const reapCredential = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  if (!Object.values(context.credentials).includes(id)) return;
  const others = Object.entries(context.credentials).filter(([, each]) => each !== id);
  enqueue.assign({ credentials: Object.fromEntries(others) });
  reapChild(enqueue, id, { type: 'volumes.lost' }, RESPAWN_MS);
});

function releaseCredentials(enqueue: Enqueue, { credentials }: PodContext): void {
  for (const id of Object.values(credentials)) enqueue.stopChild(id);
  enqueue.assign({ credentials: {} });
}
