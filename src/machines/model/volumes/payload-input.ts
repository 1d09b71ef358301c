/** What the files of a pod's volumes are made of: the pod, its node, and the objects that it names. */
import type { Pod } from '../api/pod.ts';
import type { ConfigObjects } from '../objects/config-objects.ts';
import type { NodeSettings } from '../settings/node-settings.ts';

export interface PayloadInput {
  readonly pod: Pod;
  readonly node: NodeSettings;
  readonly objects: ConfigObjects;
  /** By key, why an object cannot be known now. */
  readonly unavailable?: Readonly<Record<string, string>>;
}
