/** What the OOM watcher is given: where the kernel's log is, and whether the node may do without it. */
import type { OomWatcherInput } from '../../node/oom-watcher.ts';
import { decideFeatures, isEnabled } from '../configuration/index.ts';
import type { KubeletContext } from '../types.ts';

const KERNEL_LOG = '/dev/kmsg';

/** In a user namespace the log is out of reach, and with the embedded runtime the node is no node of a cluster. */
export function oomWatcherInput({ node, input, runtime, config }: KubeletContext): OomWatcherInput {
  const gates = decideFeatures(config!.featureGates).changed;
  return {
    nodeName: node!.nodeName,
    path: KERNEL_LOG,
    seenFile: `${input.journalDir}/oom-seen.json`,
    optional: runtime!.embedded || isEnabled(gates, 'KubeletInUserNamespace'),
  };
}
