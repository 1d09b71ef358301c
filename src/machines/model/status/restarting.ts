/**
 * Whether all containers of a pod begin anew because one of them ended in a way that asks for it. Pure.
 *
 * Invariant: once it has begun it goes on until the runtime has no instance of them any more, whatever else ends
 * meanwhile; a pod that is being deleted begins nothing anew.
 */
import type { Container, Pod, PodStatus } from '../api/pod.ts';
import type { PodRuntimeStatus } from '../operations/cri.ts';
import { mayRestartAll, restartsAll } from '../spec/restart.ts';
import { instancesOf } from './runtime-facts.ts';

export const ALL_RESTARTING = 'AllContainersRestarting';

/** Ephemeral containers are no part of it. */
const restartable = ({ spec: { initContainers = [], containers } }: Pod): readonly Container[] => [
  ...initContainers,
  ...containers,
];

export function isRestartingAll(pod: Pod, runtime: PodRuntimeStatus | null, previous: PodStatus | null): boolean {
  if (pod.metadata.deletionTimestamp !== undefined || !mayRestartAll(pod)) return false;
  const hasBegun = previous?.conditions?.some(({ type, status }) => type === ALL_RESTARTING && status === 'True');
  return hasBegun === true || restartable(pod).some((container) => asks(container, runtime));
}

function asks(container: Container, runtime: PodRuntimeStatus | null): boolean {
  const [newest] = instancesOf(runtime, container.name);
  return newest?.state === 'CONTAINER_EXITED' && restartsAll(container, newest.exit_code);
}

/** Ids of what has to go, who asked for it last: until then it is known why. */
export function instancesToRemove(pod: Pod, runtime: PodRuntimeStatus | null): readonly string[] {
  const { initContainers = [], containers } = pod.spec;
  const found = [...containers, ...initContainers].map((container) => ({
    asks: asks(container, runtime),
    ids: instancesOf(runtime, container.name).map(({ id }) => id),
  }));
  return [...found.filter((each) => !each.asks), ...found.filter((each) => each.asks)].flatMap(({ ids }) => ids);
}
