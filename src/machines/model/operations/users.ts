/** Operations for user namespaces of pods. Implemented by `src/actors/users/user-namespaces.ts`. */
import { idempotent } from '../../../kernel/xstate.ts';

/** Ids from 0 in the pod map to ids from `hostId` on the node. */
export interface UserMapping {
  readonly hostId: number;
  readonly length: number;
}

export const userOperations = {
  /**
   * The ids of one pod, which no other pod of this node has: those in the file `userns` of its folder, or newly
   * assigned ones that are written there. They are free again once the file is removed.
   */
  'users.map': idempotent<{ root: string; uid: string; idsPerPod: number; maxPods: number }, UserMapping>(),
};
