/** Metrics of the requests to the socket of pod resources, by the version of its API. */
import type { Registry } from 'prom-client';
import { counter } from '../instruments.ts';

const LABELS = ['server_api_version'] as const;
const VERSION = { server_api_version: 'v1' };
const PREFIX = 'kubelet_pod_resources_endpoint_';

export type PodResourcesMethod = 'List' | 'GetAllocatableResources' | 'Get';

/** As upstream names them in metrics, and in their texts. */
const METHODS: Readonly<Record<PodResourcesMethod, string>> = {
  List: 'list',
  GetAllocatableResources: 'get_allocatable',
  Get: 'get',
};

export class PodResourcesMetrics {
  readonly #total;
  readonly #requests: Readonly<Record<PodResourcesMethod, ReturnType<typeof counter<(typeof LABELS)[number]>>>>;
  readonly #errors: Readonly<Record<PodResourcesMethod, ReturnType<typeof counter<(typeof LABELS)[number]>>>>;

  constructor(registry: Registry) {
    const each = (kind: 'requests' | 'errors', text: (endpoint: string) => string) => {
      const of = (method: PodResourcesMethod) =>
        counter(registry, `${PREFIX}${kind}_${METHODS[method]}`, `[ALPHA] ${text(method)}`, LABELS);
      return { List: of('List'), GetAllocatableResources: of('GetAllocatableResources'), Get: of('Get') };
    };
    this.#total = counter(
      registry,
      `${PREFIX}requests_total`,
      '[ALPHA] Cumulative number of requests to the PodResource endpoint. Broken down by server api version.',
      LABELS,
    );
    const by = 'Broken down by server api version.';
    this.#requests = each('requests', (method) => `Number of requests to the PodResource ${method} endpoint. ${by}`);
    this.#errors = each(
      'errors',
      (method) => `Number of requests to the PodResource ${method} endpoint which returned error. ${by}`,
    );
  }

  asked(method: PodResourcesMethod): void {
    this.#total.inc(VERSION);
    this.#requests[method].inc(VERSION);
  }

  /** The list of v1alpha1, which only the total counts. */
  askedOlder(): void {
    this.#total.inc({ server_api_version: 'v1alpha1' });
  }

  failed(method: PodResourcesMethod): void {
    this.#errors[method].inc(VERSION);
  }
}
