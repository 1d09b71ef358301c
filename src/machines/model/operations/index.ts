/** Every operation that a machine may invoke, by name. The ports of `src/actors` implement exactly this table. */

import { certificateOperations } from './certificate.ts';
import { cgroupOperations } from './cgroup.ts';
import { criOperations } from './cri.ts';
import { csiOperations } from './csi.ts';
import { deviceOperations } from './devices.ts';
import { diskOperations } from './disk.ts';
import { draOperations } from './dra.ts';
import { hostOperations } from './host.ts';
import { imageOperations } from './image.ts';
import { kubeOperations } from './kube.ts';
import { logindOperations } from './logind.ts';
import { logOperations } from './logs.ts';
import { pluginOperations } from './plugins.ts';
import { probeOperations } from './probe.ts';
import { runtimeOperations } from './runtime.ts';
import { serverOperations } from './server.ts';
import { statsOperations } from './stats.ts';
import { userOperations } from './users.ts';
import { volumeOperations } from './volume.ts';

export const operations = {
  ...cgroupOperations,
  ...certificateOperations,
  ...criOperations,
  ...csiOperations,
  ...deviceOperations,
  ...diskOperations,
  ...draOperations,
  ...hostOperations,
  ...imageOperations,
  ...logOperations,
  ...logindOperations,
  ...kubeOperations,
  ...pluginOperations,
  ...probeOperations,
  ...runtimeOperations,
  ...serverOperations,
  ...statsOperations,
  ...userOperations,
  ...volumeOperations,
};
export type Operations = typeof operations;
