/** Messages of the sources of pods: to `pods`, and to `syncLoop` that a source is ready. */
import type { Pod, PodRef } from '../api/pod.ts';
import type { ConfigObjects } from '../objects/config-objects.ts';

export type Source = 'file' | 'http' | 'api';

/** The receiver of the messages of sources and `pleg`; default `pods`. */
export interface Receiver {
  /** `systemId` of an actor that forwards some of them. */
  readonly receiver?: string;
}

export const receiverOf = ({ receiver = 'pods' }: Receiver): string => receiver;

export type ConfigMessage =
  | {
      readonly type: 'config.pods';
      readonly op: 'ADD' | 'UPDATE' | 'DELETE' | 'RECONCILE';
      readonly source: Source;
      readonly pods: readonly Pod[];
    }
  | {
      readonly type: 'config.pods';
      readonly op: 'REMOVE';
      readonly source: Source;
      readonly pods: readonly PodRef[];
    };

/** All ConfigMaps and Secrets that exist. Sent before the pods that may need them. */
export interface ObjectsReported {
  readonly type: 'config.objects';
  readonly objects: ConfigObjects;
}

/** The source has published all its pods; `uids` are all its pods. */
export interface SourceReady {
  readonly type: 'config.sourceReady';
  readonly source: Source;
  readonly uids: readonly string[];
}

/** The source has published some pods, or has them no longer; until it was ready, this says nothing. */
export interface SourceChanged {
  readonly type: 'config.sourceChanged';
  readonly source: Source;
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/**
 * `sources.wanted`: the sources of pods may publish, and publish everything. `sources.started`: `podConfig` has
 * started, and waits for the former.
 */
export type SourcesMessage = { readonly type: 'sources.wanted' } | { readonly type: 'sources.started' };

/** A receiver lost its state in a crash: these pods are sent again; `null` means all of them. */
export interface ConfigWanted {
  readonly type: 'config.wanted';
  readonly uids: readonly string[] | null;
}
