/** Decides which pod and container a command or a stream is for, with upstream's refusals. Shared by all of them. */
import type { ContainerStatus } from '../../../machines/model/api/cri.ts';
import { type Answer, text } from '../http/answer.ts';
import type { ApiRequest } from '../http/endpoint.ts';
import { type ApiView, type NodePod, podNamed, type WantedPod } from '../node-pods.ts';

/** `uid` is not compared, as upstream does not. */
export async function podOf(
  view: ApiView,
  { parameters }: Pick<ApiRequest, 'parameters'>,
): Promise<WantedPod | Answer> {
  const { namespace = '', pod: name = '' } = parameters;
  return podNamed(await view.pods(), namespace, name) ?? text(404, 'pod does not exist');
}

export const isAnswer = (value: object): value is Answer => 'status' in value && typeof value.status === 'number';

/** The instance of a container that runs. */
export const runningContainer = ({ runtime }: NodePod, name: string): ContainerStatus | undefined =>
  runtime?.containers.find(({ metadata, state }) => metadata?.name === name && state === 'CONTAINER_RUNNING');
