/** What `pods` and the objects of the API server say to each other. */
import type { ConfigObject } from '../operations/volume.ts';

/** Everything that a pod uses: replaces what it wanted before. What is known of them is sent again. */
export interface ObjectsWanted {
  readonly type: 'objects.wanted';
  readonly uid: string;
  readonly keys: readonly string[];
}

export interface ObjectsReleased {
  readonly type: 'objects.released';
  readonly uid: string;
}

/** What there is under a key. */
export type ObjectState =
  | { readonly state: 'found'; readonly object: ConfigObject }
  | { readonly state: 'missing' }
  /** It cannot be known now: why, in words for the pod's events. */
  | { readonly state: 'unknown'; readonly message: string };

export type ObjectFound = {
  readonly type: 'object.found';
  readonly key: string;
  /** The pods that want it. */
  readonly uids: readonly string[];
} & ObjectState;

/** The objects' side has lost who wants what. */
export interface ObjectsStarted {
  readonly type: 'objects.started';
}

/** Of `nodeStatus`: the labels of this node, as the API server has them. */
export interface NodeLabels {
  readonly type: 'node.labels';
  readonly labels: Readonly<Record<string, string>>;
  /** Its annotation: for how many seconds a ConfigMap or a Secret is good enough. */
  readonly objectTtl: string | null;
}

/** To the actor of an object that is asked for again and again: so long a value is good enough. */
export interface ObjectPeriod {
  readonly type: 'object.period';
  readonly periodMs: number;
}

/** To the actor of an object that is read repeatedly: a pod needs the object as it is from now on. */
export interface ObjectRefresh {
  readonly type: 'object.refresh';
  /** They are numbered. */
  readonly refresh: number;
}

/** An object's actor to its parent. */
export type ObjectObserved = {
  readonly type: 'object.observed';
  readonly key: string;
  /** Of what is asked for again and again: the newest refresh that this answers. */
  readonly refresh?: number;
} & ObjectState;
