/**
 * The control: the CRI calls that each pod needs, made one after the other by a plain client.
 *
 * The requests are those that Statelet sent for a pilot pod, taken from its journal, with another name and uid: same
 * labels, mounts, cgroup and security context. The files of the pod are written before the measurement starts.
 */
import { randomUUID } from 'node:crypto';
import type { RuntimeClient } from '../src/actors/cri/client.ts';
import { preparePod } from '../src/actors/host/pod-files.ts';
import { readJournal } from '../src/kernel/journal/reader.ts';
import type { InputOf } from '../src/kernel/operation.ts';
import type { EffectRecord } from '../src/kernel/records.ts';
import type { criOperations } from '../src/machines/model/operations/cri.ts';
import type { hostOperations } from '../src/machines/model/operations/host.ts';

type Files = InputOf<(typeof hostOperations)['host.preparePod']>;
type RunPodSandbox = InputOf<(typeof criOperations)['cri.runPodSandbox']>;
type CreateContainer = InputOf<(typeof criOperations)['cri.createContainer']>;

/** No call here takes a second; a call that takes thirty has failed. */
export const CALL = { timeoutMs: 30_000 };

export interface PodRequests {
  readonly files: readonly Files[];
  readonly sandbox: RunPodSandbox['config'];
  readonly container: CreateContainer['config'];
}

const effectsIn = (journal: string): EffectRecord[] =>
  [...readJournal(journal).records].filter((record) => record.k === 'effect');

/** The requests for the pod `name` (its name on the node), from the effects in the journal. */
export function requestsOf(journal: string, name: string): PodRequests {
  const effects = effectsIn(journal);
  const inputs = <T>(operation: string) =>
    effects.filter((effect) => effect.name === operation).map(({ input }) => input as T);
  const sandbox = inputs<RunPodSandbox>('cri.runPodSandbox').find(({ config }) => config.metadata?.name === name);
  const uid = sandbox?.config.metadata?.uid;
  if (!sandbox || !uid) throw new Error(`the journal ${journal} has no cri.runPodSandbox for the pod ${name}`);
  const isOfPod = (input: unknown) => JSON.stringify(input).includes(uid);
  const container = inputs<CreateContainer>('cri.createContainer').find(isOfPod);
  if (!container) throw new Error(`the journal ${journal} has no cri.createContainer for the pod ${name}`);
  return {
    files: inputs<Files>('host.preparePod').filter(isOfPod),
    sandbox: sandbox.config,
    container: container.config,
  };
}

/** The same requests for another pod. */
export function renamed(requests: PodRequests, name: string): PodRequests {
  const { name: oldName = '', uid: oldUid = '' } = requests.sandbox.metadata ?? {};
  const uid = randomUUID().replaceAll('-', '');
  return JSON.parse(JSON.stringify(requests).replaceAll(oldUid, uid).replaceAll(oldName, name)) as PodRequests;
}

export async function writeFiles({ files }: PodRequests): Promise<void> {
  for (const input of files) {
    await preparePod({ id: 0, input, resume: false, signal: new AbortController().signal, emit: () => {} });
  }
}

export interface RawPod {
  readonly requests: PodRequests;
  readonly sandboxId: string;
  readonly containerId: string;
}

/** RunPodSandbox, CreateContainer, StartContainer. */
export async function startRaw(client: RuntimeClient, requests: PodRequests): Promise<RawPod> {
  const config = requests.sandbox;
  const { pod_sandbox_id } = await client.call('RunPodSandbox', { config, runtime_handler: '' }, CALL);
  const containerId = await startContainer(client, pod_sandbox_id, requests, 0);
  return { requests, sandboxId: pod_sandbox_id, containerId };
}

export async function startContainer(
  client: RuntimeClient,
  sandboxId: string,
  { container, sandbox }: PodRequests,
  attempt: number,
): Promise<string> {
  const config = { ...container, metadata: { name: container.metadata?.name ?? '', attempt } };
  const request = { pod_sandbox_id: sandboxId, config, sandbox_config: sandbox };
  const { container_id } = await client.call('CreateContainer', request, CALL);
  await client.call('StartContainer', { container_id }, CALL);
  return container_id;
}

/** Removes every sandbox of the runtime with its containers. */
export async function removeAll(client: RuntimeClient): Promise<void> {
  const { items } = await client.call('ListPodSandbox', {}, CALL);
  for (const { id } of items) {
    await client.call('StopPodSandbox', { pod_sandbox_id: id }, CALL);
    await client.call('RemovePodSandbox', { pod_sandbox_id: id }, CALL);
  }
}
