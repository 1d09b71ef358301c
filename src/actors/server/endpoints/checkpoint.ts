/**
 * `/checkpoint/<namespace>/<pod>/<container>`: a checkpoint of a running container, written to a file by the runtime.
 */

import { join } from 'node:path';
import { messageOf } from '../../../kernel/thrown.ts';
import { parseDecimal, quote } from '../../../machines/model/values/go-text.ts';
import { type Answer, json, pageNotFound, text } from '../http/answer.ts';
import type { ApiRequest, Endpoint } from '../http/endpoint.ts';
import { type ApiView, containerSpec, podNamed } from '../node-pods.ts';

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
