/**
 * Statuses that `podStatus` does not reproduce, by recording and pod, with reasons. The last status of a pod is never
 * one of them. A test fails if the number of statuses is wrong.
 */
export const excuses: Readonly<Record<string, { readonly statuses: number; readonly reason: string }>> = {
  'resize-deferred <uid:p>': { statuses: 4, reason: 'in-place resize: conditions and allocated resources' },
  'resize-memory-restart <uid:p>': { statuses: 1, reason: 'in-place resize: condition PodResizeInProgress' },
  'sidecar-startup-gate <uid:p>': {
    statuses: 1,
    reason: 'the kubelet publishes `started` of a probe before it computes the conditions that follow from it',
  },
};
