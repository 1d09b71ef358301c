/**
 * A node with faults in its runtime, connection or process, and the promises that it must keep nevertheless.
 *
 * The daemon calls containerd through a proxy; the test calls containerd directly.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { connectRuntime, type RuntimeClient } from '../../src/actors/cri/client.ts';
import type { PodStatus } from '../../src/machines/model/api/pod.ts';
import { type Containerd, startContainerd } from './containerd.ts';
import { CriProxy, type RecordedCall } from './cri-proxy.ts';
import { type DaemonOptions, eventually, SLEEP, shellPod } from './daemon.ts';
import { ObservedNode } from './observed-node.ts';
import { patient } from './patience.ts';

const CALL = { timeoutMs: patient(120_000) };
const UID_LABEL = 'io.kubernetes.pod.uid';
const NAME_LABEL = 'io.kubernetes.pod.name';
/** The limits of a daemon's descriptors, and of those for each of its pods; a leak exceeds them. */
const [DESCRIPTORS_MAX, DESCRIPTORS_PER_POD_MAX] = [200, 3];
/** For a busy machine, and for the back-off of a failed start. */
const PATIENCE_MS = 120_000;

/** A pod that is not involved in any fault: nothing may happen to it. */
export const BYSTANDER = 'bystander';

interface Named {
  readonly metadata?: { readonly name?: string };
}

export class FaultyNode extends ObservedNode {
  readonly containerd: Containerd;
  readonly proxy: CriProxy;
  readonly #direct: RuntimeClient;

  private constructor(containerd: Containerd, proxy: CriProxy, options: DaemonOptions) {
    super({ endpoint: proxy.endpoint, image: containerd.image, close: () => Promise.resolve() }, options);
    this.containerd = containerd;
    this.proxy = proxy;
    this.#direct = connectRuntime({ endpoint: containerd.endpoint });
  }

  static async create(options: DaemonOptions = {}): Promise<FaultyNode> {
    const containerd = await startContainerd();
    const node = new FaultyNode(containerd, await CriProxy.start(containerd.endpoint), options);
    try {
      await node.start();
      return node;
    } catch (error) {
      await node.close();
      throw error;
    }
  }

  /** A node on which the bystander runs. */
  static async withBystander(options: DaemonOptions = {}): Promise<FaultyNode> {
    const node = await FaultyNode.create(options);
    node.write(`${BYSTANDER}.json`, shellPod(BYSTANDER, node.image, SLEEP));
    await node.untilReady(BYSTANDER);
    return node;
  }

  /** Removes every manifest except the bystander's. */
  removeOthers(): void {
    for (const file of readdirSync(this.manifests)) if (file !== `${BYSTANDER}.json`) this.remove(file);
  }

  override get client(): RuntimeClient {
    return this.#direct;
  }

  /** Finds the pod by its sandbox, because there may be many pods. */
  override async status(pod: string): Promise<PodStatus | null> {
    const filter = { label_selector: { [NAME_LABEL]: `${pod}-node1` } };
    const { items } = await this.client.call('ListPodSandbox', { filter }, CALL);
    const newest = items.toSorted((a, b) => Number(BigInt(b.created_at) - BigInt(a.created_at)))[0];
    const actor = newest && (await this.context(`kubelet/pods/pod-${newest.labels[UID_LABEL] ?? ''}`));
    return (actor?.['status'] as PodStatus | undefined) ?? null;
  }

  /** The pod of a call, by the name of its manifest; empty for a call without a pod. */
  podOf({ request }: RecordedCall): string {
    const config = (request['sandbox_config'] ?? request['config']) as Named | undefined;
    if (config?.metadata?.name !== undefined) return config.metadata.name.replace(/-node1$/, '');
    const id = request['container_id'] ?? request['pod_sandbox_id'];
    const made = this.proxy.calls.find(
      ({ response }) => id !== undefined && Object.values(response ?? {}).includes(id),
    );
    return made === undefined || made.request === request ? '' : this.podOf(made);
  }

  /** Kills the first process of each running container of these pods, all at once. */
  async killContainers(pods: readonly string[]): Promise<void> {
    const pids = new Map<string, number>();
    for (const line of (await this.containerd.ctr('tasks', 'list')).split('\n').slice(1)) {
      const [id = '', pid = ''] = line.split(/\s+/);
      pids.set(id, Number(pid));
    }
    const instances = (await Promise.all(pods.map((pod) => this.instances(pod)))).flat();
    for (const { id, state } of instances) {
      if (state === 'CONTAINER_RUNNING') process.kill(pids.get(id) ?? Number.NaN, 'SIGKILL');
    }
  }

  /** Calls of the daemon without an answer; without streams. */
  unanswered(): readonly RecordedCall[] {
    return this.proxy.calls.filter(({ endedAtMs }) => endedAtMs === undefined);
  }

  /**
   * How often the runtime started a container, of one pod or of all; refused starts do not count. An event shows a
   * running container before its start is answered, so this waits for answers.
   */
  async starts(pod?: string): Promise<number> {
    const calls = () => this.proxy.callsOf('StartContainer');
    const areAnswered = () => calls().every(({ endedAtMs }) => endedAtMs !== undefined);
    await eventually('each start is answered', areAnswered, PATIENCE_MS);
    const began = calls().filter(({ response }) => response !== undefined);
    return began.filter((call) => pod === undefined || this.podOf(call) === pod).length;
  }

  /**
   * Checks what must hold after every fault for the wanted pods, which have the given number of containers each: each
   * pod is shown as ready (P4) and runs once in one sandbox (P7), no other pod does (P6), only their folders exist
   * (P9), and the daemon holds no more than it needs (P10).
   */
  async keepsPromises(wanted: readonly string[], containers = 1): Promise<void> {
    for (const pod of wanted) await this.untilReady(pod);
    await eventually('only the wanted pods are in the runtime', () => this.#runs(wanted, containers), PATIENCE_MS);
    const folders = () => readdirSync(join(this.rootDir, 'pods')).length === wanted.length;
    await eventually('only the folders of the wanted pods are there', folders, PATIENCE_MS);
    expect(readdirSync(`/proc/${this.pid}/fd`).length, 'open descriptors').toBeLessThan(
      DESCRIPTORS_MAX + DESCRIPTORS_PER_POD_MAX * wanted.length,
    );
  }

  /** Ends the daemon, and checks that its journal verifies and replays to the same decisions (P11, P12). */
  async keepsItsWord(): Promise<void> {
    await this.stop();
    expect(this.journalFaults()).toEqual([]);
  }

  async untilReady(pod: string): Promise<void> {
    await eventually(
      `${pod} is ready`,
      async () =>
        (await this.status(pod))?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'),
      PATIENCE_MS,
    );
  }

  async #runs(wanted: readonly string[], perPod: number): Promise<boolean> {
    const ready = { filter: { state: { state: 'SANDBOX_READY' as const } } };
    const running = { filter: { state: { state: 'CONTAINER_RUNNING' as const } } };
    const { items } = await this.client.call('ListPodSandbox', ready, CALL);
    const { containers } = await this.client.call('ListContainers', running, CALL);
    const names = (of: readonly { readonly labels: Readonly<Record<string, string>> }[]) =>
      of.map(({ labels }) => (labels[NAME_LABEL] ?? '').replace(/-node1$/, '')).sort();
    const expected = wanted.flatMap((pod) => Array<string>(perPod).fill(pod)).sort();
    return (
      JSON.stringify(names(items)) === JSON.stringify([...wanted].sort()) &&
      JSON.stringify(names(containers)) === JSON.stringify(expected)
    );
  }

  /** The uids that the runtime knows, including those of ended pods. */
  async uids(): Promise<readonly string[]> {
    const { items } = await this.client.call('ListPodSandbox', {}, CALL);
    return [...new Set(items.map(({ labels }) => labels[UID_LABEL] ?? ''))];
  }

  override async close(): Promise<void> {
    this.#direct.close();
    await super.close();
    await this.proxy.close();
    await this.containerd.close();
  }
}
