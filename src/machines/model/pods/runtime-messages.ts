/** What `pleg` observes of the runtime, for pods; its health, and the health of the runtime. */
import type { InstanceChanged, PodRuntimeStatus } from '../operations/cri.ts';

export type RuntimeMessage =
  | { readonly type: 'runtime.podChanged'; readonly status: PodRuntimeStatus }
  | InstanceChanged
  | { readonly type: 'runtime.podRemoved'; readonly uid: string }
  | { readonly type: 'runtime.podStale'; readonly uid: string; readonly message: string }
  | RuntimeRelisted;

/** Every pod of the runtime was reported since observation began. */
export interface RuntimeRelisted {
  readonly type: 'runtime.relisted';
  readonly uids: readonly string[];
}

/** A receiver has lost its state: everything is observed again. */
export interface RuntimeWanted {
  readonly type: 'runtime.wanted';
}

/** The health of `pleg`, for `runtimeState`. */
export type PlegHealth =
  | { readonly type: 'pleg.healthy' }
  | { readonly type: 'pleg.unhealthy'; readonly message: string };

/** `runtimeState` restarted and needs the health again. */
export interface PlegHealthWanted {
  readonly type: 'pleg.healthWanted';
}

/** From the root: whether pods may be synchronised. */
export type RuntimeHealth =
  | { readonly type: 'runtime.up' }
  | { readonly type: 'runtime.down'; readonly errors: readonly string[] };
