/** Families of the recorded kubelet that this node does not have, each with its reason; `docs/node-api.md` has them too. */
interface NotHere {
  readonly families: RegExp;
  /** The names as the page has them. */
  readonly names: string;
  readonly reason: string;
}

export const NOT_HERE: readonly NotHere[] = [
  {
    families: /^go_/,
    names: '`go_*`',
    reason: 'They describe the runtime of Go. Metrics of Node.js are `nodejs_*`.',
  },
  {
    families: /^(aggregator_|apiserver_(audit|envelope|storage|validation|webhooks)_)/,
    names: '`aggregator_*`, `apiserver_{audit,envelope,storage,validation,webhooks}_*`',
    reason: "They belong to libraries of the API server that are linked into upstream's program; a kubelet never changes them.",
  },
  {
    families: /^cardinality_enforcement_/,
    names: '`cardinality_enforcement_*`',
    reason: "It is internal to upstream's metrics library: here no series is cut off.",
  },
  {
    families: /^workqueue_/,
    names: '`workqueue_*`',
    reason: 'There are no work queues. Waiting inputs and requests are in `statelet_queue_length` and `statelet_requests_under_way`.',
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
    reason: "Upstream's kubelet turns its load reader off: there they are always 0.",
  },
  {
    families: /^container_health_state$/,
    names: '`container_health_state`',
    reason: 'CRI does not report it. Results of probes are at `/metrics/probes`.',
  },
  {
    families: /^machine_nvm_/,
    names: '`machine_nvm_*`',
    reason: "Needs a library that upstream's kubelet is not built with: there they are always 0.",
  },
];
