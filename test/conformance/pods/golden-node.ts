/** The node of the recordings, without an API server: containerd, a recording proxy, a daemon. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import type { JournalRecord } from '../../../src/kernel/records.ts';
import type { PodStatus } from '../../../src/machines/model/api/pod.ts';
import { type Containerd, startContainerd } from '../../support/containerd.ts';
import { CriProxy } from '../../support/cri-proxy.ts';
import { TestNode } from '../../support/daemon.ts';
import { Helpers } from './helpers.ts';

const run = promisify(execFile);

/** The settings in the README of the recordings that a configuration file can have. */
const CONFIGURATION = (resolvConf: string): string => `clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: ${resolvConf}
serializeImagePulls: false
imageGCHighThresholdPercent: 100
evictionHard: { memory.available: 100Mi }
`;
/** The recorded pull took 15 s; it only has to take longer than the steps during it. */
const SLOW_PULL_MS = 12_000;
const RESOLV_CONF = 'nameserver 192.0.2.53\nsearch example.test\noptions ndots:2\n';

export interface Published {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly atMs: number;
  readonly status: PodStatus;
}

interface Summary {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

export class GoldenNode {
  readonly containerd: Containerd;
  readonly proxy: CriProxy;
  readonly node: TestNode;
  /** Texts that the recordings replace by names: `${HOST}`, the registry, ports of the host. */
  readonly words: ReadonlyMap<string, string>;
  readonly #helpers: Helpers;

  private constructor(containerd: Containerd, proxy: CriProxy, helpers: Helpers) {
    this.containerd = containerd;
    this.proxy = proxy;
    this.#helpers = helpers;
    this.words = helpers.words;
    const resolvConf = join(containerd.directory, 'resolv.conf');
    writeFileSync(resolvConf, RESOLV_CONF);
    this.node = new TestNode({ endpoint: proxy.endpoint, configuration: CONFIGURATION(resolvConf) });
    proxy.interfere = async ({ method, request }, forward) => {
      const isSlow = method === 'PullImage' && JSON.stringify(request['image']).includes('/slow/');
      if (isSlow) await sleep(SLOW_PULL_MS);
      return forward();
    };
  }

  static async start(): Promise<GoldenNode> {
    const containerd = await startContainerd();
    const proxy = await CriProxy.start(containerd.endpoint);
    const golden = new GoldenNode(containerd, proxy, await Helpers.start(join(containerd.directory, 'host')));
    try {
      await shareMounts(golden.node.directory);
      await golden.node.start();
      return golden;
    } catch (error) {
      await golden.close();
      throw error;
    }
  }

  /** The pods that this node knows, by `namespace/name`. */
  async known(): Promise<ReadonlyMap<string, Summary>> {
    const context = await this.node.context('kubelet/status');
    const pods = Object.values((context?.['pods'] ?? {}) as Record<string, Summary>);
    return new Map(pods.map((pod) => [`${pod.namespace}/${pod.name}`, pod]));
  }

  async status(uid: string): Promise<PodStatus | null> {
    const actor = await this.node.context(`kubelet/pods/pod-${uid}`);
    return (actor?.['status'] as PodStatus | undefined) ?? null;
  }

  /** Every status of a pod, from the journal. */
  published(): readonly Published[] {
    const found: Published[] = [];
    let atMs = 0;
    for (const record of readJournal(this.node.journal).records) {
      if ('t' in record) atMs = record.t;
      const known = statusIn(record);
      if (known !== null) found.push({ ...known, atMs });
    }
    return found;
  }

  async close(): Promise<void> {
    await this.node.stop();
    // There is no mount if the start failed before.
    await run('umount', ['--recursive', '--lazy', this.node.directory]).catch(() => {});
    await this.node.close();
    await this.proxy.close();
    await this.#helpers.close();
    await this.containerd.close();
  }
}

/** A pod sees later mounts of the host only if they are shared, as they are on most machines. */
async function shareMounts(directory: string): Promise<void> {
  await run('mount', ['--bind', directory, directory]);
  await run('mount', ['--make-shared', directory]);
}

function statusIn(record: JournalRecord): Omit<Published, 'atMs'> | null {
  if (record.k !== 'message' || record.event.type !== 'status.changed' || record.to !== 'kubelet/status') return null;
  const { pod, status } = record.event as unknown as { pod: Summary; status: PodStatus };
  return { uid: pod.uid, namespace: pod.namespace, name: pod.name, status };
}
