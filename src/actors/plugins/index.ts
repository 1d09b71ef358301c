/** Ports for `plugins.*` and `devices.*`: the folder where plugins announce themselves, and the talk with them. */
import type { Ports } from '../../kernel/operation.ts';
import type { deviceOperations } from '../../machines/model/operations/devices.ts';
import type { pluginOperations } from '../../machines/model/operations/plugins.ts';
import { devicePorts } from '../devices/devices.ts';
import { csiNodeGetInfo, followNodeInfo, getInfo, notifyRegistrationStatus } from './client.ts';
import { watchPlugins } from './sockets.ts';

export const pluginPorts = (): Ports<typeof pluginOperations & typeof deviceOperations> => ({
  ...devicePorts(),
  'plugins.watch': watchPlugins,
  'plugins.getInfo': getInfo,
  'plugins.notifyRegistrationStatus': notifyRegistrationStatus,
  'plugins.csiNodeGetInfo': csiNodeGetInfo,
  'plugins.followNodeInfo': followNodeInfo,
});
