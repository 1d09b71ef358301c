/**
 * `/pods`, `/runningpods/`, `/configz`: the wanted pods of this node, the running ones, and its configuration. Also
 * `/checkpoint`: a checkpoint of a running container.
 */
import { join } from 'node:path';
import { messageOf } from '../../../kernel/thrown.ts';
import { toServed } from '../../../machines/configuration/fields/decode.ts';
import type { PodStatus } from '../../../machines/model/api/pod.ts';
import { parseDecimal, quote } from '../../../machines/model/values/go-text.ts';
import { type Answer, type ApiRequest, type Endpoint, json, pageNotFound, text } from '../http/endpoint.ts';
import { type ApiView, containerSpec, isWanted, type NodePod, podNamed } from '../node-pods.ts';

/** A list as encoded by upstream: an empty one is `null`, and a line feed follows. */
const listOf = (items: readonly object[]): string =>
  `${JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata: {}, items: items.length === 0 ? null : items })}\n`;

/** Upstream encodes a time that is not set as `null`. */
const withTimes = ({ conditions, ...status }: PodStatus): object =>
  conditions === undefined
    ? status
    : { ...status, conditions: conditions.map((condition) => ({ lastProbeTime: null, ...condition })) };

/** Every wanted pod with its status on this node, without pods that their source has removed. */
const desiredPods = (pods: readonly NodePod[]): object[] =>
  pods.filter(isWanted).map(({ pod: { metadata, spec, status: own }, status }) => ({
    metadata,
    spec,
    status: withTimes(status ?? own ?? {}),
  }));

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

/** Asks the runtime to write a container's state to `location`; `timeoutSeconds` 0 leaves the time to the runtime. */
export type CheckpointContainer = (
  request: { readonly containerId: string; readonly location: string; readonly timeoutSeconds: number },
  signal: AbortSignal,
) => Promise<void>;

export interface CheckpointOptions {
  readonly view: ApiView;
  readonly rootDir: string;
  readonly checkpoint: CheckpointContainer;
}

export function checkpointEndpoints(options: CheckpointOptions): Endpoint[] {
  const common = { methods: ['POST'], subresources: ['checkpoint'] } as const;
  return [
    {
      ...common,
      produces: ['application/json'],
      path: '/checkpoint/:namespace/:pod/:container',
      answer: (request) => checkpointed(request, options),
    },
    ...['/checkpoint', '/checkpoint/*'].map(
      (path): Endpoint => ({
        ...common,
        path,
        methods: 'any',
        answer: pageNotFound,
      }),
    ),
  ];
}

async function checkpointed(request: ApiRequest, { view, rootDir, checkpoint }: CheckpointOptions): Promise<Answer> {
  const { namespace = '', pod = '', container = '' } = request.parameters;
  const found = podNamed(await view.pods(), namespace, pod);
  if (!found) return text(404, 'pod does not exist');
  if (!containerSpec(found.pod, container)) return text(404, `container ${container} does not exist`);
  // Upstream takes the last of several values.
  const timeout = parseDecimal(request.query.get('timeout')?.at(-1) ?? '0');
  if (timeout.error !== undefined) return text(404, 'cannot parse value of timeout parameter');
  const failed = (why: string) => text(500, `checkpointing of ${namespace}/${pod}/${container} failed (${why})`);
  const running = found.runtime?.containers.find(
    ({ metadata, state }) => metadata?.name === container && state === 'CONTAINER_RUNNING',
  );
  if (!running) return failed(`container ${container} not found`);
  if (timeout.value < 0) return failed('CheckpointContainer requires the timeout value to be > 0');
  const at = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const location = join(rootDir, 'checkpoints', `checkpoint-${pod}_${namespace}-${container}-${at}.tar`);
  try {
    await checkpoint({ containerId: running.id, location, timeoutSeconds: timeout.value }, request.signal);
  } catch (error) {
    return failed(messageOf(error));
  }
  return json(`{"items":[${quote(location)}]}`);
}
