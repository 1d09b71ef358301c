/** `/pods`, `/runningpods/`, `/configz`: the wanted pods of this node, the running ones, and its configuration. */
import { toServed } from '../../../machines/configuration/fields/versioned.ts';
import { json } from '../http/answer.ts';
import type { Endpoint } from '../http/endpoint.ts';
import { type ApiView, isWanted, type NodePod } from '../node-pods.ts';

/** A list as encoded by upstream: an empty one is `null`, and a line feed follows. */
const listOf = (items: readonly object[]): string =>
  `${JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata: {}, items: items.length === 0 ? null : items })}\n`;

/** Every wanted pod with its status on this node, without pods that their source has removed. */
const desiredPods = (pods: readonly NodePod[]): object[] =>
  pods
    .filter(isWanted)
    .map(({ pod: { metadata, spec, status: own }, status }) => ({ metadata, spec, status: status ?? own ?? {} }));

/** Every running pod, as the runtime knows it. */
const running = (pods: readonly NodePod[]): object[] =>
  pods.flatMap(({ name, namespace, uid, runtime }) => {
    const containers = (runtime?.containers ?? [])
      .filter(({ state }) => state === 'CONTAINER_RUNNING')
      .map(({ metadata, image_id, image_ref }) => ({
        name: metadata?.name ?? '',
        image: image_id || image_ref,
        resources: {},
      }));
    const sandboxes = (runtime?.sandboxes ?? []).filter(({ state }) => state === 'SANDBOX_READY');
    if (containers.length + sandboxes.length === 0) return [];
    return [
      {
        metadata: { name, namespace, uid },
        spec: { containers: containers.length === 0 ? null : containers },
        status: {},
      },
    ];
  });

const listEndpoint = (path: string, view: ApiView, itemsOf: (pods: readonly NodePod[]) => object[]): Endpoint => ({
  path,
  methods: ['GET'],
  produces: ['application/json'],
  subresources: ['pods', 'proxy'],
  answer: async () => json(listOf(itemsOf(await view.pods()))),
});

export const podsEndpoint = (view: ApiView): Endpoint => listEndpoint('/pods', view, desiredPods);
export const runningPodsEndpoint = (view: ApiView): Endpoint => listEndpoint('/runningpods', view, running);

export const configzEndpoint = (view: ApiView): Endpoint => ({
  path: '/configz',
  methods: 'any',
  subresources: ['configz', 'proxy'],
  answer: async () => {
    const answer = json(JSON.stringify({ kubeletconfig: toServed(await view.configuration()) }));
    return { ...answer, headers: { ...answer.headers, 'x-content-type-options': 'nosniff' } };
  },
});
