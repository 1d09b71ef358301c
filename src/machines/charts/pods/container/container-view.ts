/** The reports of a container to its pod, and its view in them. */
import { outputOf } from '../../../../kernel/xstate.ts';
import type { ContainerStatus } from '../../../model/api/cri.ts';
import type { ContainerRequest, ContainerView } from '../../../model/pods/pod-messages.ts';
import { killMessages } from '../../../model/reasons/reasons.ts';
import { type ContainerContext, willRestart } from './container-policy.ts';

/** True from the order to restart until the end of the next instance, unless that instance fails to start. */
function restartExpected({ stop, reason, isReplacing }: ContainerContext, phase: ContainerView['phase']): boolean {
  if (phase === 'stopping') return willRestart(stop);
  return isReplacing && reason === '' && phase !== 'ended';
}

/** An instance that is stopped because its postStart hook failed was never shown as running. */
const shownPhase = ({ stop }: ContainerContext, phase: ContainerView['phase']): ContainerView['phase'] =>
  phase === 'stopping' && stop?.message === killMessages.failedPostStartHook ? 'starting' : phase;

export const viewOf = (context: ContainerContext, phase: ContainerView['phase']): ContainerView => ({
  phase: shownPhase(context, phase),
  reason: phase === 'waiting' ? context.reason : '',
  message: phase === 'waiting' ? context.message : '',
  restartCount: context.restartCount,
  ended: context.ended,
  ...(restartExpected(context, phase) ? { comesAgain: true } : {}),
});

/** The pod's view of a new container until it has reported. */
export const SPAWNED: ContainerView = { phase: 'waiting', reason: '', message: '', restartCount: 0, ended: null };

export const requestOf = ({ restartCount, image }: ContainerContext): ContainerRequest => ({ restartCount, image });

/** The facts that a container reports to its pod besides its view. */
export interface Report {
  readonly phase: ContainerView['phase'];
  readonly inspect?: boolean;
  readonly seen?: ContainerStatus;
}

/** The instance in the answer to a call; `null` where the answer has none. */
export const shownIn = (event: unknown): ContainerStatus | null =>
  outputOf<{ readonly status?: ContainerStatus | null } | undefined>(event)?.status ?? null;

/** Whether the pod has to inspect the runtime after a call: not when the answer showed the instance. */
export function afterCall({ event }: { readonly event: unknown }): Pick<Report, 'inspect' | 'seen'> {
  const instance = shownIn(event);
  return instance === null ? { inspect: true } : { seen: instance };
}
