/**
 * Families of the recorded kubelet that this node does not have, by a pattern of their names, each with its reason.
 * `docs/node-api.md` lists the same for readers.
 */
export const NOT_HERE: readonly (readonly [families: RegExp, reason: string])[] = [
  [/^go_/, 'the runtime of Go; what Node.js says of itself is under `nodejs_`'],
  [
    /^(aggregator_|apiserver_(audit|envelope|storage|validation|webhooks)_)/,
    "libraries of the API server that upstream's program is linked with, and a kubelet never moves",
  ],
  [
    /^(cardinality_enforcement_|disabled_metrics|hidden_metrics)/,
    "the inside of upstream's metrics library: nothing here is hidden, disabled, or cut down",
  ],
  [/^workqueue_/, 'there are no work queues: what waits is in the journal, see `statelet_requests_under_way`'],
  [/^rest_client_(exec_plugin|transport)_/, 'the inside of client-go: caches of transports and of credential plugins'],
  [/^dra_/, 'no resource claim is prepared by this node'],
  [
    /^(reconstruct_volume|force_cleaned_failed_volume|kubelet_orphan_pod_cleaned)/,
    'nothing is reconstructed or swept: the actor of a pod takes its own volumes away, also after a restart',
  ],
  [/^kubelet_imagemanager_inmemory_/, 'records of pulls are files without a cache in memory'],
  [/^kubelet_volume_metric/, 'the folders of volumes are measured together with the disk that they are on'],
  [/^kubelet_(cpu_manager|memory_manager|topology_manager)_/, 'no CPUs, memory or devices are pinned by this node'],
  [/^kubelet_pleg_discard_events$/, 'no event of the runtime is discarded: a hint leads to a look, however late'],
  [/^kubelet_pod_watch_events_/, "the API that agents watch pods with is upstream's gate `PodsAPI`, which is off"],
  [/^container_cpu_(cfs_burst|load)_/, 'control groups of pods have no burst, and the kernel keeps no load for each'],
  [/^container_(file_descriptors|sockets|tasks_state|ulimits_soft)$/, 'needs a walk over every process on each scrape'],
  [/^container_fs_(?!reads_total|writes_total)/, 'the kernel keeps these for disks and not for control groups'],
  [/^container_(health_state|oom_events_total)$/, 'no runtime says it of a container; OOMKilled is in the status of the pod'],
  [/^container_memory_total_(active|inactive)_file_bytes$/, 'the reader keeps the sums that decisions are made of'],
  [/^container_spec_memory_reservation_limit_bytes$/, 'this node reserves no memory for one container'],
  [/^container_swap_limit_bytes$/, 'the summary has use, not limits'],
  [/^machine_(cpu_books|cpu_drawers|nvm_)/, 'no decision of this node needs it, and nobody else keeps it here'],
];
