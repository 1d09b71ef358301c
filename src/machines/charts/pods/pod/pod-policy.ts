/** The pure rules by which a pod's machine decides. See `pod.ts`. */
import { DEFAULT_GRACE_SECONDS, type ObjectReference, type Pod } from '../../../model/api/pod.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import type { PodKill } from '../../../model/pods/pod-messages.ts';
import { hasInitialized, podIPs } from '../../../model/status/index.ts';
import { type ContainerFacts, factsOf, isAlive } from '../../../model/status/runtime-facts.ts';
import { isSame } from '../../../model/values/same.ts';
import { runsInOrder } from '../container/container-policy.ts';
import type { ContainerRecord, Kill, PodContext } from './pod-context.ts';

/** The pod, or a minimal one if only the runtime knows it. */
export const podOrName = ({ pod, uid, name, namespace }: PodContext): Pod =>
  pod ?? { metadata: { uid, name, namespace }, spec: { containers: [] } };

export const refOf = ({
  uid,
  name,
  namespace,
  pod,
}: Pick<PodContext, 'uid' | 'name' | 'namespace' | 'pod'>): ObjectReference => ({
  kind: 'Pod',
  namespace,
  name,
  uid,
  ...versionOf(pod),
});

export const versionOf = (pod: Pod | null): Pick<ObjectReference, 'resourceVersion'> =>
  pod?.metadata.resourceVersion === undefined ? {} : { resourceVersion: pod.metadata.resourceVersion };

export const addressesOf = ({ pod, runtime, node }: PodContext): readonly string[] =>
  pod?.spec.hostNetwork === true ? node.nodeIPs : podIPs(runtime, node);

export const changedFacts = (
  before: PodRuntimeStatus | null,
  after: PodRuntimeStatus,
  names: readonly string[],
): [name: string, facts: ContainerFacts | null][] =>
  names
    .map((name): [string, ContainerFacts | null, ContainerFacts | null] => [
      name,
      factsOf(before, name),
      factsOf(after, name),
    ])
    .filter(([, was, is]) => !isSame(was, is))
    .map(([name, , is]) => [name, is]);

/** Whether a driver may have published a volume of the pod; assumed if its definition is unknown. */
export const mayBePublished = ({ pod, node }: PodContext): boolean =>
  node.apiServer !== undefined &&
  (pod === null ||
    (pod.spec.volumes ?? []).some(
      ({ csi, ephemeral, persistentVolumeClaim }) => csi ?? ephemeral ?? persistentVolumeClaim,
    ));

/** The grace period never grows, and is at least a second. */
const MIN_GRACE_SECONDS = 1;

export function mergedKill(context: PodContext, asked: Omit<PodKill, 'type'>, nowMs: number): Kill {
  const { pod, kill } = context;
  const specifiedSeconds = pod?.metadata.deletionGracePeriodSeconds ?? pod?.spec.terminationGracePeriodSeconds;
  const bounds = [asked.graceSeconds, kill?.graceSeconds, pod?.metadata.deletionGracePeriodSeconds].filter(
    (seconds): seconds is number => typeof seconds === 'number',
  );
  const shortest = bounds.length > 0 ? Math.min(...bounds) : (specifiedSeconds ?? DEFAULT_GRACE_SECONDS);
  const graceSeconds = Math.max(MIN_GRACE_SECONDS, shortest);
  return {
    graceSeconds,
    sinceMs: kill !== null && kill.graceSeconds <= graceSeconds ? kill.sinceMs : nowMs,
    remove: asked.remove || (kill?.remove ?? false),
    verdict: kill?.verdict ?? asked.verdict,
    wasInitialised: kill?.wasInitialised ?? (pod !== null && hasInitialized(pod, context.status)),
  };
}

/** The remaining grace period of the containers whose turn it is to stop. */
export const graceLeft = ({ graceSeconds, sinceMs }: Kill, nowMs: number): number =>
  Math.max(MIN_GRACE_SECONDS, graceSeconds - Math.floor((nowMs - sinceMs) / 1_000));

const hasEnded = ({ view }: ContainerRecord): boolean => view.phase === 'ended';

/** The containers to stop now: all regular ones at once, then the sidecars in reverse order. */
export function nextToStop({ containers, pod }: PodContext): string[] {
  const open = Object.entries(containers).filter(([, record]) => !hasEnded(record));
  const first = open.filter(([, { kind }]) => kind !== 'sidecar').map(([name]) => name);
  if (first.length > 0) return first;
  const order = (pod?.spec.initContainers ?? []).map(({ name }) => name);
  return open
    .map(([name]) => name)
    .sort((a, b) => order.indexOf(b) - order.indexOf(a))
    .slice(0, 1);
}

export const allEnded = ({ containers }: PodContext): boolean => Object.values(containers).every(hasEnded);

export const anyAlive = ({ runtime }: PodContext): boolean => (runtime?.containers ?? []).some(isAlive);

/** At least one of the containers that run in order had its turn. */
export const hasRunInOrder = ({ initialised, containers }: PodContext): boolean =>
  initialised || Object.values(containers).some((each) => each.view.phase === 'ended' && runsInOrder(each));

export const anyReadySandbox = ({ runtime }: Pick<PodContext, 'runtime'>): boolean =>
  (runtime?.sandboxes ?? []).some(({ state }) => state === 'SANDBOX_READY');
