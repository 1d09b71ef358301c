/** Every operation a machine may ask for, by name. The ports of `src/actors` implement exactly this table. */
import { cgroupOperations } from './cgroup.ts';
import { certificateOperations } from './certificate.ts';
import { criOperations } from './cri.ts';
import { hostOperations } from './host.ts';
import { imageOperations } from './image.ts';
import { kubeOperations } from './kube.ts';
import { probeOperations } from './probe.ts';
import { runtimeOperations } from './runtime.ts';
import { volumeOperations } from './volume.ts';

export const operations = {
  ...cgroupOperations,
  ...certificateOperations,
  ...criOperations,
  ...hostOperations,
  ...imageOperations,
  ...kubeOperations,
  ...probeOperations,
  ...runtimeOperations,
  ...volumeOperations,
};
export type Operations = typeof operations;
