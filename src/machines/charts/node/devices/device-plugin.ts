/**
 * One device plugin while it is connected: the devices that it lists.
 *
 * Decides: nothing; a plugin whose stream ends counts as stopped.
 * Owns: its connection.
 * Hears: `devices.listed` of its stream.
 * Asks: `devices.listAndWatch`.
 * Sends: the device manager `device.listed`, and once `device.stopped`.
 * Invariants:
 *   D1 messages of a plugin after its end are ignored.
 * Upstream: pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go.
 */

import type { Ended } from '../../../../kernel/xstate.ts';
import { errorOf, line, pick, sendParent, setup, typed } from '../../../../kernel/xstate.ts';
import {
  type Device,
  type DevicePlugin,
  type DevicesListed,
  deviceOperations,
} from '../../../model/operations/devices.ts';

interface DevicePluginInput extends DevicePlugin {
  /** The id of the connection: a resource may have a newer one. */
  readonly id: string;
}

export type DevicePluginReport =
  | {
      readonly type: 'device.listed';
      readonly id: string;
      readonly resource: string;
      readonly devices: readonly Device[];
    }
  | { readonly type: 'device.stopped'; readonly id: string; readonly resource: string };

const s = setup({
  types: typed<{ input: DevicePluginInput; context: DevicePluginInput; events: DevicesListed | Ended }>(),
  actors: pick(deviceOperations, 'devices.listAndWatch'),
});

export const devicePluginMachine = s.createMachine({
  id: 'devicePlugin',
  context: ({ input }) => input,
  initial: 'connected',
  states: {
    connected: {
      on: {
        'devices.listed': {
          actions: sendParent(({ context: { id, resource }, event }) => ({
            type: 'device.listed',
            id,
            resource,
            devices: event.devices,
          })),
        },
      },
      invoke: {
        id: 'devices',
        src: 'devices.listAndWatch',
        input: ({ context: { resource, endpoint, options } }) => ({ resource, endpoint, options }),
        onDone: 'stopped',
        onError: {
          target: 'stopped',
          actions: line('error', ({ context, event }) => [
            'ListAndWatch ended unexpectedly for device plugin',
            { resource: context.resource, err: errorOf(event).message },
          ]),
        },
      },
    },
    stopped: {
      type: 'final',
      entry: sendParent(({ context: { id, resource } }) => ({ type: 'device.stopped', id, resource })),
    },
  },
});
