/**
 * A node with a real containerd in a cluster (test/support/cluster.ts), with pods of the recorded corpus on it, and the
 * comparison of kubectl's output there with the recording.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { excusesFor } from '../golden/kubectl-excused.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { type Containerd, startContainerd } from './containerd.ts';
import { eventually, TestNode } from './daemon.ts';
import {
  differences,
  fixtures,
  Kubectl,
  type Manifest,
  normalized,
  type RecordedEvent,
  recordedEvents,
  type Transcript,
} from './kubectl-transcripts.ts';
import { patient } from './patience.ts';
import { ownAddress } from './ports.ts';

/** A start takes a second; on two cores with thirty other processes, one of ten pods has taken ten. */
const STARTING_MS = 150_000;
/** The configuration of the recorded node, as far as it is visible. */
const RECORDED =
  'enableControllerAttachDetach: false\nevictionHard: { memory.available: 100Mi }\nclusterDNS: [10.98.0.10]';

/** The time until the state is as recorded: the node delays some writes by up to ten seconds. */
const SETTLING_MS = patient(30_000);
/** The same for commands that may differ for good. */
const UNSETTLED_MS = 6_000;
const POLL_EVERY_MS = 300;

/**
 * kubectl's own race: after a deletion it gets the object, compares the uid, and then lists and watches. If an object
 * ends and returns in between, as a mirror pod does, kubectl waits for the new one.
 */
const RACES_MAX = 5;
const hasMissedTheEnd = ({ argv }: Transcript, found: readonly string[]): boolean =>
  argv[0] === 'delete' && found.some((each) => each.includes('timed out waiting for the condition'));

const isQuery = ({ argv, exitCode, ended }: Transcript): boolean =>
  exitCode === 0 && ended === undefined && ['get', 'describe', 'logs'].includes(argv[0] ?? '');

export interface SceneOptions {
  /** The pods of the corpus that it needs. */
  readonly pods: readonly string[];
  /** Further pods of its own. */
  readonly more?: (image: string) => readonly Manifest[];
  /** Lines of `<pod> <phase> <ready containers>` that must exist before it begins. */
  readonly settled: readonly string[];
}

export class Scene {
  readonly directory = mkdtempSync(join(tmpdir(), 'statelet-kubectl-'));
  containerd!: Containerd;
  cluster!: Cluster;
  node!: TestNode;
  kubectl!: Kubectl;

  static async open(options: SceneOptions): Promise<Scene> {
    const scene = new Scene();
    await scene.start(options).catch(async (error: unknown) => {
      // The reason of the failed start is the error, not a consequence of it.
      await scene.close().catch(() => {});
      throw error;
    });
    return scene;
  }

  private async start({ pods, more, settled }: SceneOptions): Promise<void> {
    [this.containerd, this.cluster] = await Promise.all([startContainerd('system'), startCluster()]);
    const { containerd, cluster } = this;
    this.kubectl = new Kubectl(await cluster.kubeconfig('admin'), this.directory, containerd.image);
    this.node = new TestNode({
      endpoint: containerd.endpoint,
      flags: [`--client-ca-file=${cluster.caFile}`],
      configuration: RECORDED,
    });
    for (const object of fixtures(containerd.image)) {
      if (object.kind !== 'Pod' || pods.includes(object.metadata.name)) await cluster.admin.create(object);
    }
    for (const object of more?.(containerd.image) ?? []) await cluster.admin.create(object);
    // A real API server does not forward requests (`get --raw .../proxy/...`) to a node with a loopback address.
    const address = cluster.isReal ? [`--node-ip=${ownAddress()}`, '--address=0.0.0.0'] : [];
    await this.node.start([`--kubeconfig=${await cluster.kubeconfig('system:node:node1')}`, ...address]);
    await this.until(settled);
  }

  /** Waits until the lines are among those of {@link phases}. */
  private async until(settled: readonly string[]): Promise<void> {
    let phases: readonly string[] = [];
    const areSettled = async () => {
      phases = await this.phases();
      return settled.every((each) => phases.includes(each));
    };
    await eventually('the pods', areSettled, STARTING_MS).catch((error: Error) => {
      throw new Error(`${error.message}: ${phases.join(', ')}\n${this.node.log}`, { cause: error });
    });
  }

  /** The lines `<pod> <phase> <ready containers>`. */
  private async phases(): Promise<string[]> {
    return (await this.cluster.admin.list('pods')).map(({ metadata, status }) => {
      const { phase, containerStatuses = [] } = status as { phase?: string; containerStatuses?: { ready: boolean }[] };
      return `${metadata.name} ${phase} ${containerStatuses.filter(({ ready }) => ready).length}`;
    });
  }

  /** Ends every pod. */
  async clear(): Promise<void> {
    if (!this.cluster) return;
    const { admin } = this.cluster;
    for (const { metadata } of await admin.list('pods')) await admin.delete('pods', metadata.name, 1);
    if (!this.node?.isRunning) return;
    const isEmpty = async () => (await admin.list('pods')).length === 0;
    await eventually('the pods are gone', isEmpty, STARTING_MS);
  }

  async close(): Promise<void> {
    // The node unmounts volumes, which would otherwise stay mounted.
    try {
      await this.clear();
    } finally {
      await this.node?.close();
      await this.cluster?.close();
      await this.containerd?.close();
      rmSync(this.directory, { recursive: true, force: true });
    }
  }

  /** Commands that only read are repeated for a while, because the recorder ran when everything was settled. */
  private async found(recorded: Transcript): Promise<string[]> {
    const { certain, possible } = excusesFor(this.cluster);
    const settlingMs = possible.has(recorded.id) ? UNSETTLED_MS : SETTLING_MS;
    const end = performance.now() + (isQuery(recorded) && !certain.has(recorded.id) ? settlingMs : 0);
    for (let tries = 1; ; tries += 1) {
      const found = differences(recorded, await this.kubectl.run(recorded), this.kubectl);
      const isOver = performance.now() > end && !(tries < RACES_MAX && hasMissedTheEnd(recorded, found));
      if (found.length === 0 || isOver) return found;
      await sleep(POLL_EVERY_MS);
    }
  }

  /** Compares the API server's events with the recorded events of the same objects. */
  async judgeEvents(objects: readonly string[]): Promise<void> {
    const wanted = recordedEvents().filter(({ seenOn }) => seenOn.some((name) => objects.includes(name)));
    const seen = new Set((await this.cluster.admin.list('events')).map((event) => this.eventKey(event as never)));
    const missing = wanted.filter((event) => !seen.has(keyOf({ ...event, kind: event.object })));
    this.judge(wanted, new Map(missing.map((event) => [event.id, `${event.reason}: ${event.message}`])));
  }

  private eventKey(event: SeenEvent): string {
    const { kind, fieldPath = null } = event.involvedObject;
    const message = normalized(this.kubectl.text(Buffer.from(event.message)));
    return keyOf({ ...event, kind, fieldPath, message });
  }

  /** Runs the commands, `atOnce` at a time, and compares them with the recording and its excuses. */
  async play(recorded: readonly Transcript[], atOnce: number): Promise<void> {
    const wrong = new Map<string, string>();
    const queue = [...recorded];
    const work = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const found = await this.found(next);
        if (found.length > 0) wrong.set(next.id, `${next.argv.join(' ')}: ${found.join('; ')}`);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    this.judge(recorded, wrong);
  }

  /**
   * Prints the number of equal commands. Fails for commands that differ without an excuse, and for unnecessary excuses.
   */
  judge(recorded: readonly Pick<Transcript, 'id'>[], wrong: ReadonlyMap<string, string>): void {
    const { certain, possible } = excusesFor(this.cluster);
    const unexcused = [...wrong].filter(([id]) => !certain.has(id) && !possible.has(id));
    const file = recorded[0]!.id.split('#')[0]!;
    process.stdout.write(
      `kubectl ${file}: ${recorded.length - wrong.size} of ${recorded.length} equal, ` +
        `${wrong.size - unexcused.length} excused, wrong=${unexcused.length}\n`,
    );
    const unexpected = unexcused.map(([id, why]) => `${id} ${why}`);
    // Printed here, too, because a slow machine may be stopped before vitest shows its failures.
    for (const each of unexpected) process.stdout.write(`  ${each}\n`);
    expect(unexpected).toEqual([]);
    expect(recorded.filter(({ id }) => certain.has(id) && !wrong.has(id)).map(({ id }) => id)).toEqual([]);
  }
}

type SeenEvent = Omit<RecordedEvent, 'id' | 'object' | 'fieldPath' | 'seenOn'> & {
  readonly involvedObject: { readonly kind: string; readonly fieldPath?: string };
};

const keyOf = (event: Omit<RecordedEvent, 'id' | 'object' | 'seenOn'> & { readonly kind: string }): string =>
  JSON.stringify([
    event.type,
    event.reason,
    event.kind,
    event.fieldPath,
    event.source.component,
    event.source.host,
    event.reportingComponent,
    event.reportingInstance,
    event.message,
  ]);
