/**
 * Determines which fields of the configuration can change while the node runs, and which subsystems receive each.
 *
 * A field is listed if its only readers are `pods`, which receives the change in a message, and subsystems that read
 * the field from their input. Such a subsystem restarts and observes the runtime again, as after a crash; no container
 * is touched. Every other field is refused by name. Pure.
 */

import type { Json } from '../../kernel/json.ts';
import { isObject, type JsonObject } from '../../kernel/xstate.ts';
import { asConfiguration, type KubeletConfiguration } from '../model/configuration/fields.ts';

/** By the path of a field, the subsystems that read it. */
export const RELOADABLE = {
  'crashLoopBackOff.maxContainerRestartPeriod': ['pods'],
  clusterDNS: ['pods'],
  clusterDomain: ['pods'],
  containerLogMaxFiles: ['pods'],
  containerLogMaxSize: ['pods'],
  containerLogMonitorInterval: ['pods'],
  cpuCFSQuota: ['pods'],
  evictionMaxPodGracePeriod: ['eviction'],
  evictionMinimumReclaim: ['eviction'],
  evictionPressureTransitionPeriod: ['eviction'],
  fileCheckFrequency: ['podConfig'],
  healthzBindAddress: ['healthz'],
  healthzPort: ['healthz'],
  imageGCHighThresholdPercent: ['imageGC'],
  imageGCLowThresholdPercent: ['imageGC'],
  imageMaximumGCAge: ['imageGC'],
  imageMinimumGCAge: ['imageGC'],
  'logging.format': ['logging'],
  'logging.options': ['logging'],
  'logging.verbosity': ['logging'],
  maxParallelImagePulls: ['images'],
  nodeLeaseDurationSeconds: ['lease'],
  registryBurst: ['images'],
  registryPullQPS: ['images'],
  seccompDefault: ['pods'],
  serializeImagePulls: ['images'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/** Structures whose fields are compared one by one; any other value is one field. */
const STRUCTURES: readonly string[] = ['authentication', 'authorization', 'logging', 'crashLoopBackOff', 'memorySwap'];

export interface ConfigurationChange {
  /** The current configuration with the changes that are possible while the node runs. */
  readonly config: KubeletConfiguration;
  /** Paths of fields that were changed, in alphabetical order. */
  readonly changed: readonly string[];
  /** Paths of fields that differ and cannot change while the node runs. */
  readonly refused: readonly string[];
  /** Subsystems that read a changed field. */
  readonly readers: readonly string[];
}

const fieldsOf = (value: Json | undefined): JsonObject => (isObject(value) ? value : {});

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The part of `next` that can replace `current` while the node runs. */
export function changeOf(current: KubeletConfiguration, next: KubeletConfiguration): ConfigurationChange {
  const paths = differingPaths(current, next).toSorted();
  const changed = paths.filter(isReloadable);
  return {
    config: changed.reduce((config, path) => withField(config, path, next), current),
    changed,
    refused: paths.filter((path) => !isReloadable(path)),
    readers: [...new Set(changed.flatMap((path): readonly string[] => RELOADABLE[path]))],
  };
}

const isReloadable = (path: string): path is keyof typeof RELOADABLE => Object.hasOwn(RELOADABLE, path);

function differingPaths(current: JsonObject, next: JsonObject): string[] {
  const names = [...new Set([...Object.keys(current), ...Object.keys(next)])];
  return names.flatMap((name) => {
    if (same(current[name], next[name])) return [];
    if (!STRUCTURES.includes(name)) return [name];
    const [before, after] = [fieldsOf(current[name]), fieldsOf(next[name])];
    const inner = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return inner.filter((key) => !same(before[key], after[key])).map((key) => `${name}.${key}`);
  });
}

function withField(config: KubeletConfiguration, path: string, from: KubeletConfiguration): KubeletConfiguration {
  const [name = '', key] = path.split('.');
  const target: JsonObject = config;
  const source: JsonObject = from;
  const value = key === undefined ? source[name] : replaced(target[name], source[name], key);
  const { [name]: _old, ...rest } = target;
  return asConfiguration({ ...rest, ...(value === undefined ? {} : { [name]: value }) });
}

function replaced(target: Json | undefined, source: Json | undefined, key: string): JsonObject {
  const { [key]: _old, ...rest } = fieldsOf(target);
  const value = fieldsOf(source)[key];
  return { ...rest, ...(value === undefined ? {} : { [key]: value }) };
}
