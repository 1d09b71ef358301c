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
  [/^kubelet_pleg_discard_events$/, 'no event of the runtime is discarded: a hint leads to a look, however late'],
  [/^kubelet_pod_watch_events_/, "the API that agents watch pods with is upstream's gate `PodsAPI`, which is off"],
  [
    /^container_(cpu_load_d?_?average_10s|tasks_state)$/,
    "upstream's kubelet has its reader of load switched off, so that these are always 0",
  ],
  [/^container_health_state$/, 'no container runtime says it by CRI; probes are under `/metrics/probes`'],
  [/^machine_nvm_/, "needs a library for persistent memory that upstream's kubelet is not built with: always 0 there"],
];
