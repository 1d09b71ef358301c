/** What the OOM watcher is given: where the kernel's log is, and whether the node may do without it. */
import type { OomWatcherInput } from '../../charts/node/oom-watcher.ts';
import { gatesOf } from '../context/derive-features.ts';
import type { EstablishedContext } from '../context/types.ts';

const KERNEL_LOG = '/dev/kmsg';

/** In a user namespace the log is out of reach, and with the embedded runtime the node is no node of a cluster. */
export function oomWatcherInput({ node, input, runtime, config }: EstablishedContext): OomWatcherInput {
  return {
    nodeName: node.nodeName,
    path: KERNEL_LOG,
    seenFile: `${input.journalDir}/oom-seen.json`,
    optional: runtime.embedded || gatesOf(config)('KubeletInUserNamespace'),
  };
}
