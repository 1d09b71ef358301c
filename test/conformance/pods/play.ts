/** Plays the steps of one recording on a node: writes and removes manifests, and waits as the recorder waited. */
import { setTimeout as sleep } from 'node:timers/promises';
import { connectRuntime } from '../../../src/actors/cri/client.ts';
import type { Pod } from '../../../src/machines/model/api/pod.ts';
import type { Recorded, Recording } from '../../machines/model/spec/recordings.ts';
import { patient } from '../../support/patience.ts';
import { fileOf, manifestOf, refOf } from './cases.ts';
import type { GoldenNode } from './golden-node.ts';

const POLL_MS = 150;
/** Added to the recorder's time limit, because this machine runs other tests at the same time. */
const PATIENCE_MS = patient(240_000);
/** The limit for the recorded conditions of an ended pod before its removal: its sandbox may end later here. */
const SETTLE_MAX_MS = patient(10_000);

export interface Played {
  readonly recording: Recording;
  /** The time of the removal of a pod's manifest, by the recorded name of the pod. */
  readonly removedAtMs: ReadonlyMap<string, number>;
  /** The waits that reached their limit. */
  readonly stuck: readonly string[];
}

export async function play(golden: GoldenNode, recording: Recording): Promise<Played> {
  const player = new Player(golden, recording);
  let before = 0;
  for (const step of recording.steps) {
    await player.take(step, step.at - before);
    before = step.at;
    // The following steps require the result of this one.
    if (player.stuck.length > 0) break;
  }
  return player;
}

class Player implements Played {
  readonly recording: Recording;
  readonly removedAtMs = new Map<string, number>();
  readonly stuck: string[] = [];
  readonly #golden: GoldenNode;

  constructor(golden: GoldenNode, recording: Recording) {
    this.#golden = golden;
    this.recording = recording;
  }

  /** `tookMs`: how long the step took the recorder. */
  async take(step: Recorded, tookMs: number): Promise<void> {
    if (step.apply !== undefined) this.#apply(step.apply);
    if (step.create !== undefined) this.#write(step.create);
    if (step.patch?.startsWith('ConfigMap/') === true) this.#patch(step.patch, step.body);
    if (step.sleep !== undefined) await this.#sleep(step.sleep * 1_000, tookMs);
    if (step.delete !== undefined) {
      await this.#settle(step);
      this.#remove(step.delete);
    }
    if (step.wait !== undefined) await this.#until(`wait ${step.wait}`, tookMs, () => this.#holds(step));
    if (step.gone !== undefined) await this.#until(`gone ${step.gone}`, tookMs, () => this.#isGone(step.gone));
    if (step.killSandbox !== undefined) await this.#killSandbox();
    if (step.removeContainer !== undefined) await this.#removeContainer(step.removeContainer);
  }

  /** Also waits until the pods have reached their recorded states, if no other step shows this. */
  async #sleep(ms: number, tookMs: number): Promise<void> {
    const { steps, calls } = this.recording;
    await sleep(ms);
    if (steps.some(({ wait }) => wait !== undefined)) return;
    const starts = calls.some(({ method }) => method === 'StartContainer');
    if (starts) await this.#until('Running', tookMs, () => this.#holds({ wait: 'Running' }));
  }

  #apply(what: 'all' | readonly string[]): void {
    const objects = this.recording.objects.filter((object) => what === 'all' || what.includes(refOf(object)));
    for (const object of objects.toSorted((a, b) => Number(a.kind === 'Pod') - Number(b.kind === 'Pod'))) {
      this.#write(object);
    }
  }

  #write(object: Recorded): void {
    const manifest = manifestOf(this.recording, object, this.#golden.words);
    this.#golden.node.write(fileOf(this.recording, refOf(object)), manifest);
  }

  #patch(ref: string, body: Recorded): void {
    const object = this.recording.objects.find((each) => refOf(each) === ref);
    this.#write({ ...object, data: { ...object.data, ...body.data } });
  }

  /**
   * Waits for the recorded conditions of an ended pod before its removal. If they do not appear, the comparison reports
   * it.
   */
  async #settle({ delete: pod, at }: Recorded): Promise<void> {
    const recorded = this.recording.statuses.findLast(
      (each) => each.pod === pod && each.at <= at && each.deletionTimestamp === undefined,
    );
    if (!/^(Failed|Succeeded)$/.test(recorded?.status.phase ?? '')) return;
    const wanted = conditionsOf(recorded?.status);
    const end = Date.now() + SETTLE_MAX_MS;
    while (Date.now() < end && conditionsOf(await this.#statusOf(pod)) !== wanted) await sleep(POLL_MS);
  }

  #remove(name: string): void {
    // Before the removal, because the end of a pod without containers is reported within a millisecond.
    this.removedAtMs.set(name, Date.now());
    this.#golden.node.remove(fileOf(this.recording, `Pod/${name}`));
  }

  async #until(what: string, recordedMs: number, holds: () => Promise<boolean>): Promise<void> {
    const end = Date.now() + recordedMs + PATIENCE_MS;
    while (!(await holds())) {
      if (Date.now() > end) {
        this.stuck.push(what);
        return;
      }
      await sleep(POLL_MS);
    }
  }

  async #holds({ wait, pod = 'p' }: Recorded): Promise<boolean> {
    const status = await this.#statusOf(pod);
    return status !== null && condition(wait)({ status });
  }

  async #statusOf(pod: string): Promise<NonNullable<Pod['status']> | null> {
    const known = (await this.#golden.known()).get(this.#fullName(pod));
    return known === undefined ? null : await this.#golden.status(known.uid);
  }

  async #isGone(name: string): Promise<boolean> {
    return !(await this.#golden.known()).has(this.#fullName(name));
  }

  #fullName(name: string): string {
    return `${this.recording.name}/${name}-node1`;
  }

  async #killSandbox(): Promise<void> {
    const ids = this.#created('RunPodSandbox', 'pod_sandbox_id');
    await this.#golden.containerd.ctr('tasks', 'kill', '--signal', 'SIGKILL', ids.at(-1) ?? '');
  }

  async #removeContainer(_name: string): Promise<void> {
    const client = connectRuntime({ endpoint: this.#golden.containerd.endpoint });
    const id = this.#created('CreateContainer', 'container_id').at(-1) ?? '';
    await client.call('RemoveContainer', { container_id: id }, { timeoutMs: PATIENCE_MS });
    client.close();
  }

  /** The ids that the runtime returned for this case's calls, oldest first. */
  #created(method: string, field: string): string[] {
    return this.#golden.proxy.callsOf(method).flatMap(({ request, response }) => {
      const config = (request['sandbox_config'] ?? request['config']) as Recorded;
      const id = config?.metadata?.namespace === this.recording.name ? response?.[field] : undefined;
      return id === undefined ? [] : [id as string];
    });
  }
}

/** The type and the status of each condition. */
const conditionsOf = (status: Pod['status'] | null): string =>
  (status?.conditions ?? [])
    .map((each) => `${each.type} ${each.status}`)
    .toSorted()
    .join();

/** A phase, or an expression over the pod object `p`; `Running` also requires that the pod is ready. */
function condition(text: string): (pod: Pick<Pod, 'status'>) => boolean {
  if (text === 'Running') return ({ status }) => isReady(status);
  if (/^\w+$/.test(text)) return ({ status }) => status?.phase === text;
  // oxlint-disable-next-line typescript/no-implied-eval -- the recorder's own words, which lie in this repository
  const holds = new Function('p', `return (${text})`) as (pod: unknown) => unknown;
  return (pod) => Boolean(holds({ status: { conditions: [], containerStatuses: [], ...pod.status } }));
}

const isReady = (status: Pod['status']): boolean =>
  status?.phase === 'Running' &&
  status.conditions?.some((each) => each.type === 'Ready' && each.status === 'True') === true;
