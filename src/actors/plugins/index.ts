/** Ports for `plugins.*`: the folder where plugins announce themselves, and the talk with them. */
import type { Ports } from '../../kernel/operation.ts';
import type { pluginOperations } from '../../machines/operations/plugins.ts';
import { csiNodeGetInfo, getInfo, notifyRegistrationStatus } from './client.ts';
import { watchPlugins } from './sockets.ts';

export const pluginPorts = (): Ports<typeof pluginOperations> => ({
  'plugins.watch': watchPlugins,
  'plugins.getInfo': getInfo,
  'plugins.notifyRegistrationStatus': notifyRegistrationStatus,
  'plugins.csiNodeGetInfo': csiNodeGetInfo,
});
