/** Ports for `plugins.*` and `devices.*`: the folder where plugins announce themselves, and the talk with them. */
import type { Ports } from '../../kernel/operation.ts';
import type { deviceOperations } from '../../machines/operations/devices.ts';
import type { pluginOperations } from '../../machines/operations/plugins.ts';
import { csiNodeGetInfo, followNodeInfo, getInfo, notifyRegistrationStatus } from './client.ts';
import { devicePorts } from './devices.ts';
import { watchPlugins } from './sockets.ts';

export const pluginPorts = (): Ports<typeof pluginOperations & typeof deviceOperations> => ({
  ...devicePorts(),
  'plugins.watch': watchPlugins,
  'plugins.getInfo': getInfo,
  'plugins.notifyRegistrationStatus': notifyRegistrationStatus,
  'plugins.csiNodeGetInfo': csiNodeGetInfo,
  'plugins.followNodeInfo': followNodeInfo,
});
