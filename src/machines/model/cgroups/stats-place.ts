/** Where this node's statistics are measured: a projection of its settings. */

import type { StatsPlace } from '../operations/stats.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { nodeAllocatablePath } from './names.ts';

type Settings = Pick<
  NodeSettings,
  'nodeName' | 'rootDir' | 'podLogsDir' | 'cgroupRoot' | 'cgroupDriver' | 'cgroupsPerQOS' | 'makesPodCgroups'
>;

const NOT_CONFIGURED = { kubelet: '', runtime: '', misc: '' };

export const statsPlace = (
  settings: Settings,
  systemCgroups: StatsPlace['systemCgroups'] = NOT_CONFIGURED,
): StatsPlace => ({
  nodeName: settings.nodeName,
  rootDir: settings.rootDir,
  podLogsDir: settings.podLogsDir,
  podsCgroup: settings.cgroupsPerQOS && settings.makesPodCgroups !== false ? nodeAllocatablePath(settings) : '',
  systemCgroups,
});
