/**
 * The API server of a guest's node. It runs on the host, behind a relay at the guest's gateway address: when the relay
 * is closed, the API server is unreachable.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pod } from '../../../src/machines/model/api/pod.ts';
import { type Cluster, startCluster } from '../../support/cluster.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { NODE } from './guest.ts';

/** The address of the host in the emulator's network. */
const HOST = '10.0.2.2';
const STATE_LIMIT_MS = 30 * 60_000;
const POLL_MS = 500;
const PODS = '/api/v1/namespaces/default/pods';

type Spec = Readonly<Record<string, unknown>>;

export class GuestCluster {
  private readonly cluster: Cluster;
  private relay: TcpRelay;

  private constructor(cluster: Cluster, relay: TcpRelay) {
    this.cluster = cluster;
    this.relay = relay;
  }

  static async start(): Promise<GuestCluster> {
    const cluster = await startCluster();
    return new GuestCluster(cluster, await startRelay(Number(new URL(cluster.url).port)));
  }

  get isReal(): boolean {
    return this.cluster.isReal;
  }

  /** Writes the node's kubeconfig and the files that it names. */
  async writeKubeconfig(file: string): Promise<void> {
    const config = JSON.parse(readFileSync(await this.cluster.kubeconfig(`system:node:${NODE}`), 'utf8')) as Kubeconfig;
    const { cluster } = config.clusters[0]!;
    const { user } = config.users[0]!;
    const inside = {
      ...config,
      clusters: [
        {
          name: config.clusters[0]!.name,
          cluster: {
            server: `https://${HOST}:${this.relay.port}`,
            'tls-server-name': 'localhost',
            'certificate-authority-data': base64(cluster['certificate-authority']),
          },
        },
      ],
      users: [
        {
          name: config.users[0]!.name,
          user: {
            'client-certificate-data': base64(user['client-certificate']),
            'client-key-data': base64(user['client-key']),
          },
        },
      ],
    };
    writeFileSync(file, JSON.stringify(inside));
  }

  /** Makes the API server unreachable. */
  leave(): Promise<void> {
    return this.relay.close();
  }

  /** Makes it reachable again under the same address. */
  async comeBack(): Promise<void> {
    this.relay = await startRelay(Number(new URL(this.cluster.url).port), this.relay.port);
  }

  async close(): Promise<void> {
    await this.relay.close();
    await this.cluster.close();
  }

  /** Creates a pod with one container `app` on this node, as after scheduling. */
  async create(name: string, container: Spec, spec: Spec = {}): Promise<void> {
    const app = { name: 'app', image: 'localhost/bb:1', imagePullPolicy: 'Never', ...container };
    await this.createPod(name, { ...spec, containers: [app] });
  }

  /** A pod with this spec on this node. */
  async createPod(name: string, spec: object): Promise<void> {
    const own = { nodeName: NODE, automountServiceAccountToken: false, terminationGracePeriodSeconds: 1 };
    await this.cluster.admin.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name },
      spec: { ...own, ...spec },
    } as { apiVersion: string; kind: string });
  }

  async pod(name: string): Promise<Pod> {
    return (await this.cluster.admin.rest.get(`${PODS}/${name}`)) as unknown as Pod;
  }

  async pods(): Promise<readonly Pod[]> {
    return (await this.cluster.admin.list('pods')) as unknown as readonly Pod[];
  }

  /** Waits for a state of the pod; an error has its actual state. */
  untilPod(name: string, what: string, isSo: (pod: Pod) => boolean): Promise<Pod> {
    return until(`pod ${name}: ${what}`, () => this.pod(name), isSo);
  }

  runs(name: string): Promise<Pod> {
    return this.untilPod(name, 'runs and is ready', isReady);
  }

  async allRun(): Promise<void> {
    const are = (pods: readonly Pod[]) => pods.every(isReady);
    await until('every pod runs and is ready', () => this.pods(), are);
  }

  /** Deletes the pod and waits for its end. */
  async delete(name: string): Promise<void> {
    await this.cluster.admin.delete('pods', name, 1);
    await until(
      `pod ${name}: is gone`,
      () => this.pods(),
      (pods) => !pods.some(({ metadata }) => metadata.name === name),
    );
  }

  async resize(name: string, resources: Spec): Promise<void> {
    const patch = { spec: { containers: [{ name: 'app', resources }] } };
    await this.cluster.admin.rest.patch(`${PODS}/${name}/resize`, 'application/strategic-merge-patch+json', patch);
  }

  untilNode(what: string, isSo: (node: NodeObject) => boolean): Promise<NodeObject> {
    const { rest } = this.cluster.admin;
    const get = async () => (await rest.list('/api/v1/nodes', {})).items as unknown as readonly NodeObject[];
    // There is no node before it has registered.
    return until(`the node ${what}`, get, (nodes) => nodes.some(isSo)).then(([node]) => node!);
  }

  /** Waits until this agent has registered the node and reports it as ready. */
  async untilAgent(agent: 'kubelet' | 'statelet'): Promise<void> {
    await this.untilNode(`is of ${agent}`, ({ status }) => {
      const isReady = status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
      return isReady && status.nodeInfo.kubeletVersion.includes('+statelet') === (agent === 'statelet');
    });
  }

  /** Reports a volume as attached, in place of the cluster's controller, once the node lists it as in use. */
  async attach(name: string): Promise<void> {
    await this.untilNode(`uses ${name}`, ({ status }) => status.volumesInUse?.includes(name) === true);
    const status = { volumesAttached: [{ name, devicePath: '' }] };
    await this.cluster.admin.rest.patch(`/api/v1/nodes/${NODE}/status`, 'application/merge-patch+json', { status });
  }

  /** Waits for a condition of the node. */
  async untilCondition(type: string, status: 'True' | 'False'): Promise<void> {
    const isSo = ({ status: { conditions } }: NodeObject) =>
      conditions?.some((each) => each.type === type && each.status === status) === true;
    await this.untilNode(`is ${type}=${status}`, isSo);
  }

  /** Waits for an event with this reason and text. */
  async untilEvent(reason: string, text: RegExp): Promise<void> {
    const get = async () => (await this.cluster.admin.list('events')) as unknown as readonly EventObject[];
    const isSo = (events: readonly EventObject[]) =>
      events.some((each) => each.reason === reason && text.test(each.message));
    await until(`an event ${reason} ${text}`, get, isSo);
  }
}

export interface NodeObject {
  readonly status: {
    readonly nodeInfo: { readonly kubeletVersion: string };
    readonly capacity: Readonly<Record<string, string>>;
    readonly allocatable: Readonly<Record<string, string>>;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly volumesInUse?: readonly string[];
  };
}
interface EventObject {
  readonly reason: string;
  readonly message: string;
}
interface Kubeconfig {
  readonly clusters: readonly {
    readonly name: string;
    readonly cluster: { readonly 'certificate-authority': string };
  }[];
  readonly users: readonly {
    readonly name: string;
    readonly user: { readonly 'client-certificate': string; readonly 'client-key': string };
  }[];
}

const base64 = (file: string): string => readFileSync(file).toString('base64');

const isReady = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;

async function until<T>(what: string, get: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  const end = Date.now() + STATE_LIMIT_MS;
  let last: T | undefined;
  while (Date.now() < end) {
    last = await get();
    if (isSo(last)) return last;
    await sleep(POLL_MS);
  }
  throw new Error(`${what}: not within ${STATE_LIMIT_MS / 60_000} minutes; it is ${JSON.stringify(last)}`);
}
