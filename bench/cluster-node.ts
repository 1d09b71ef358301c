/** A daemon on a containerd of its own, as the node of a cluster of its own, and a user of that cluster. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type ApiServer, startApiServer } from '../test/fakes/api-server/index.ts';
import type { Containerd } from '../test/support/containerd.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../test/support/daemon.ts';
import { ApiUser } from './api-user.ts';

const NODE = 'node1';

interface NodeStatus {
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
}

/**
 * A pod that is bound to the node and ends at once on the stop signal. It has no token, as the pods of raw CRI calls
 * have none.
 */
export function boundPod(name: string, { image }: Containerd) {
  return shellPod(name, image, SLEEP, { nodeName: NODE, automountServiceAccountToken: false, dnsPolicy: 'Default' });
}

export class ClusterNode {
  readonly server: ApiServer;
  readonly user: ApiUser;
  readonly node: TestNode;

  private constructor(server: ApiServer, node: TestNode) {
    this.server = server;
    this.node = node;
    this.user = new ApiUser(server);
  }

  static async create({ endpoint }: Containerd): Promise<ClusterNode> {
    const server = await startApiServer();
    const flags = [`--kubeconfig=${await server.kubeconfig(`system:node:${NODE}`)}`];
    const cluster = new ClusterNode(server, new TestNode({ endpoint, flags }));
    await cluster.user.watch();
    return cluster;
  }

  /** Resolves when the API server reports the node as ready. */
  async start(): Promise<void> {
    await this.node.start();
    await eventually('the node is ready', () => {
      const { conditions } = (this.server.store.get('v1', 'nodes', NODE)?.status ?? {}) as NodeStatus;
      return conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    });
  }

  /** The requests of the daemon to the API server since this time (milliseconds since the epoch), as `METHOD path`. */
  requestsSince(sinceMs: number): string[] {
    const own = this.server.requests.filter(({ atMs, user }) => atMs >= sinceMs && user === `system:node:${NODE}`);
    return own.map(({ method, path }) => `${method} ${path.split('?')[0]}`);
  }

  /** The warnings of the daemon about pods. */
  troubles(): string[] {
    const warnings = this.server.store.list('v1', 'events', 'default').filter(({ type }) => type === 'Warning');
    const ofPods = warnings.filter(({ involvedObject }) => (involvedObject as { kind?: string }).kind === 'Pod');
    return ofPods.map(({ reason, message }) => `${String(reason)}: ${String(message)}`);
  }

  async close(): Promise<void> {
    await this.user.close();
    await this.node.close();
    await this.server.close();
  }
}

/** Bytes of all files below a folder; files that disappear meanwhile do not count. */
export function bytesBelow(directory: string): number {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => {
      return sum + (statSync(join(parentPath, name), { throwIfNoEntry: false })?.size ?? 0);
    }, 0);
}
