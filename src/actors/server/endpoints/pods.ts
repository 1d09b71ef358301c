/** `/pods`, `/runningpods/`, `/configz`: what this node is to run, what it runs, and how it is configured. */
import { toVersioned } from '../../../machines/startup/configuration/index.ts';
import { takes } from '../http/accept.ts';
import { type Answer, json, text } from '../http/answer.ts';
import type { ApiRequest, Endpoint } from '../http/endpoint.ts';
import type { NodePod, NodeView } from '../node-view.ts';

const ONLY_JSON = '406: Not Acceptable\n\nAvailable representations: application/json';

/** JSON for those who take it; the inner router refuses everyone else. */
export function jsonFor({ raw }: ApiRequest, body: () => string): Answer {
  return takes(raw.headers.accept, 'application/json') ? json(body()) : text(406, ONLY_JSON);
}

const listOf = (items: readonly object[]): string =>
  JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata: {}, items });

/** Every pod that this node is to run, with its status as this node sees it. */
const wanted = (pods: readonly NodePod[]): object[] =>
  pods.flatMap(({ pod, status }) => {
    if (pod === null) return [];
    const { metadata, spec } = pod;
    return [{ metadata, spec, status: status ?? pod.status ?? {} }];
  });

/** Every pod of which something runs, as the runtime knows it. */
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
    return [{ metadata: { name, namespace, uid }, spec: { containers }, status: {} }];
  });

export const podsEndpoint = (view: NodeView): Endpoint => ({
  path: '/pods',
  methods: ['GET'],
  subresources: ['pods', 'proxy'],
  answer: (request) => jsonFor(request, () => listOf(wanted(view.pods()))),
});

export const runningPodsEndpoint = (view: NodeView): Endpoint => ({
  path: '/runningpods',
  methods: ['GET'],
  subresources: ['pods', 'proxy'],
  answer: (request) => jsonFor(request, () => listOf(running(view.pods()))),
});

export const configzEndpoint = (view: NodeView): Endpoint => ({
  path: '/configz',
  methods: 'any',
  subresources: ['configz', 'proxy'],
  answer: () => {
    const answer = json(JSON.stringify({ kubeletconfig: toVersioned(view.configuration()) }));
    return { ...answer, headers: { ...answer.headers, 'x-content-type-options': 'nosniff' } };
  },
});
