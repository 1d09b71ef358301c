/** Messages between `pods`, `objects` and its actors. */
import type { ConfigObject } from '../operations/volume.ts';

/** All objects that a pod uses: replaces its earlier message. Known states are sent again. */
export interface ObjectsWanted {
  readonly type: 'objects.wanted';
  readonly uid: string;
  readonly keys: readonly string[];
}

export interface ObjectsReleased {
  readonly type: 'objects.released';
  readonly uid: string;
}

/** The state of an object. */
export type ObjectState =
  | { readonly state: 'found'; readonly object: ConfigObject }
  | { readonly state: 'missing' }
  /** The object cannot be read now; the message is for the pod's events. */
  | { readonly state: 'unknown'; readonly message: string };

export type ObjectFound = {
  readonly type: 'object.found';
  readonly key: string;
  /** The pods that want the object. */
  readonly uids: readonly string[];
} & ObjectState;

/** `objects` restarted and lost the wanted objects of pods. */
export interface ObjectsStarted {
  readonly type: 'objects.started';
}

/** From `nodeStatus`: the labels of this node in the API server. */
export interface NodeLabels {
  readonly type: 'node.labels';
  readonly labels: Readonly<Record<string, string>>;
  /** The node's annotation with the seconds for which a ConfigMap or Secret may be cached. */
  readonly objectTtl: string | null;
}

/** To the actor of a periodically read object: the maximum age of a value. */
export interface ObjectPeriod {
  readonly type: 'object.period';
  readonly periodMs: number;
}

/** To the actor of a periodically read object: a pod needs a value read from now on. */
export interface ObjectRefresh {
  readonly type: 'object.refresh';
  /** The number of the refresh. */
  readonly refresh: number;
}

/** From the actor of an object to `objects`. */
export type ObjectObserved = {
  readonly type: 'object.observed';
  readonly key: string;
  /** For a periodically read object: the newest refresh that this answers. */
  readonly refresh?: number;
} & ObjectState;
