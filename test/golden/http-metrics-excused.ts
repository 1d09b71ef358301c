/** Families of the recorded kubelet that this node does not have, each with its reason; `docs/node-api.md` has them too. */
interface NotHere {
  readonly families: RegExp;
  /** As people write them. */
  readonly names: string;
  readonly reason: string;
}

export const NOT_HERE: readonly NotHere[] = [
  {
    families: /^go_/,
    names: '`go_*`',
    reason: 'The runtime of Go. What Node.js says of itself is under `nodejs_*`.',
  },
  {
    families: /^(aggregator_|apiserver_(audit|envelope|storage|validation|webhooks)_)/,
    names: '`aggregator_*`, `apiserver_{audit,envelope,storage,validation,webhooks}_*`',
    reason: "Libraries of the API server that upstream's program is linked with; no kubelet moves them.",
  },
  {
    families: /^cardinality_enforcement_/,
    names: '`cardinality_enforcement_*`',
    reason: "The inside of upstream's metrics library: nothing here is cut down.",
  },
  {
    families: /^workqueue_/,
    names: '`workqueue_*`',
    reason: 'There are no work queues. What waits is in the journal: `statelet_queue_length`, `statelet_requests_under_way`.',
  },
  {
    families: /^rest_client_transport_cert_rotation_gc_/,
    names: '`rest_client_transport_cert_rotation_gc_calls_total`',
    reason: 'Counts goroutines; connections with an old certificate are closed with the certificate.',
  },
  {
    families: /^kubelet_imagemanager_inmemory_/,
    names: '`kubelet_imagemanager_inmemory_*`',
    reason: 'Records of pulls are files without a cache in memory.',
  },
  {
    families: /^container_(cpu_load_d?_?average_10s|tasks_state)$/,
    names: '`container_cpu_load_*`, `container_tasks_state`',
    reason: "Upstream's kubelet switches its reader of load off: there they are always 0.",
  },
  {
    families: /^container_health_state$/,
    names: '`container_health_state`',
    reason: 'CRI has no word for it. Probes are under `/metrics/probes`.',
  },
  {
    families: /^machine_nvm_/,
    names: '`machine_nvm_*`',
    reason: "Needs a library that upstream's kubelet is not built with: there they are always 0.",
  },
];
