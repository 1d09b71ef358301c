/**
 * Decides which device plugins may register, and what remains of their resources. Pure.
 *
 * Upstream: pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go and handler.go.
 */

import type { Device, DeviceEntry, DevicePluginOptions } from '../operations/devices.ts';
import type { DeviceHolding, DeviceHoldings } from '../operations/grants.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import { isQualifiedName } from '../validation/field.ts';
import { mapValues, valueIn } from '../values/tables.ts';
import type { DeviceState, Devices } from './device-state.ts';
import { decodedResponse, entriesOf, healthyIds } from './device-state.ts';
import type { ResourcesHandedOver } from './messages.ts';
import { isExtendedResource } from './request.ts';

const VERSION = 'v1beta1';

/** How long a resource is kept after its plugin is gone. */
export const STOP_GRACE_MS = 300_000;

/**
 * The maximum number of device resources; nodes have a dozen. Every report and checkpoint contains all of them, so
 * their number determines the cost of a change.
 */
export const RESOURCES_MAX = 128;

export const CHECKPOINT_FILE = 'kubelet_internal_checkpoint';

/** Why a plugin may not register; empty if it may. */
export function registrationProblem(version: string, resource: string): string {
  if (version !== VERSION) {
    return `requested API version ${JSON.stringify(version)} is not supported by kubelet. Supported version is ["${VERSION}"]`;
  }
  return isResource(resource) ? '' : invalidName(resource);
}

/** Why a plugin announced in the plugin folder may not register; empty if it may. */
export function announcementProblem(versions: readonly string[], resource: string): string {
  if (!versions.includes(VERSION)) {
    return `manager version, ${VERSION}, is not among plugin supported versions [${versions.join(' ')}]`;
  }
  return isResource(resource) ? '' : `invalid name of device plugin socket: ${invalidName(resource)}`;
}

const isResource = (name: string): boolean =>
  isExtendedResource(name) && [...isQualifiedName(`requests.${name}`)].length === 0;

const invalidName = (name: string): string => `the ResourceName ${JSON.stringify(name)} is invalid`;

export interface ResourceEntry {
  /** The id of the connection to its plugin; empty without one. */
  readonly id: string;
  readonly endpoint: string;
  readonly options: DevicePluginOptions;
  /** The plugin is connected and has listed its devices. */
  readonly isListed: boolean;
  readonly devices: readonly Device[];
}

export type Resources = Readonly<Record<string, ResourceEntry>>;

/** Whether two states differ. A node may have thousands of devices, so identical objects are not compared. */
export function haveChanged(before: Resources, after: Resources): boolean {
  const names = Object.keys(after);
  if (names.length !== Object.keys(before).length) return true;
  return names.some(
    (name) => before[name] !== after[name] && JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
}

export const NO_OPTIONS: DevicePluginOptions = { preStart: false, prefers: false };

export const devicesOf = (resources: Resources): Devices =>
  mapValues(resources, ({ isListed, devices, options }) => ({
    devices,
    prefers: options.prefers,
    ...(isListed ? {} : { isUnlisted: true }),
  }));

/**
 * Without its plugin no device can be allocated; the health of devices that containers hold stays as last reported,
 * except on a node of 0.2.0.
 */
export const withoutPlugin = (entry: ResourceEntry, node: { readonly behavior: number }): ResourceEntry => ({
  ...entry,
  id: '',
  isListed: false,
  devices: hasBehavior(node, 'resourcesAsKubelet')
    ? entry.devices
    : entry.devices.map((device) => ({ ...device, isHealthy: false })),
});

/** Resources known from an earlier start: they exist, without devices, until their plugins register again. */
export const rememberedResources = ({ registered }: DeviceState): readonly string[] =>
  Object.keys(registered).filter(isResource);

/** The devices that containers held in an earlier start. */
export function devicesHandedOver({ entries }: DeviceState): ResourcesHandedOver | null {
  const holdings: Record<string, { devices: Record<string, Record<string, DeviceHolding>> }> = {};
  for (const { podUid, container, resource, nodes, base64 } of entries) {
    const response = decodedResponse(base64);
    if (response === null) continue;
    const { devices } = (holdings[podUid] ??= { devices: {} });
    devices[container] = { ...valueIn(devices, container), [resource]: { nodes, response } };
  }
  return entries.length === 0 ? null : { type: 'resources.handedOver', holdings };
}

/** Registered devices as the checkpoint lists them: only healthy ones. */
export const registeredDevices = (resources: Resources): Readonly<Record<string, readonly string[]>> =>
  mapValues(devicesOf(resources), healthyIds);

/** Entries of the checkpoint, from the holdings of pods by uid. */
export const entriesOfAll = (held: Readonly<Record<string, DeviceHoldings>>): readonly DeviceEntry[] =>
  Object.entries(held).flatMap(([uid, holdings]) => entriesOf(uid, holdings));
