/** The pods of the recorded streams, in a separate containerd, behind the server of this project. */
import type { NodePod } from '../../src/actors/server/node-pods.ts';
import type { Pod } from '../../src/machines/model/api/pod.ts';
import { GoldenNode } from '../actors/server/golden-node.ts';
import { Bench, eventually } from '../contract/cri-bench.ts';
import { startContainerd } from '../support/containerd.ts';

interface Wanted {
  readonly name: string;
  readonly script: string;
  readonly stdin?: boolean;
  readonly tty?: boolean;
}

const SLEEP = 'exec sleep 100000';
/** The pods as in the manifests of the corpus, without fields that do not affect streams. */
const PODS: Readonly<Record<string, readonly Wanted[]>> = {
  lines: [{ name: 'main', script: SLEEP }],
  shell: [
    { name: 'main', stdin: true, script: `echo ready; while read l; do echo got $l; done; ${SLEEP}` },
    { name: 'tty', stdin: true, tty: true, script: 'exec sh' },
  ],
  web: [
    {
      name: 'httpd',
      script: 'mkdir -p /site; echo hello from web > /site/index.html; exec httpd -f -v -p 8080 -h /site',
    },
  ],
  done: [{ name: 'main', script: 'exit 0' }],
  waiting: [],
};

export class StreamsNode {
  readonly bench: Bench;
  golden!: GoldenNode;
  port = 0;

  constructor() {
    this.bench = new Bench({ name: 'containerd', isolates: true, start: async () => await this.containerd() });
  }

  private endpoint = '';

  private async containerd() {
    // The recordings contain texts of the runtime, which was Debian's.
    const containerd = await startContainerd('system');
    this.endpoint = containerd.endpoint;
    return containerd;
  }

  async start(): Promise<void> {
    await this.bench.start();
    const pods = await Promise.all(Object.entries(PODS).map(([name, wanted]) => this.pod(name, wanted)));
    this.golden = await GoldenNode.start(this.endpoint);
    this.golden.pods = pods;
    this.port = await this.golden.serve('A');
  }

  uidOf(name: string): string {
    return this.golden.pods.find((pod) => pod.name === name)!.uid;
  }

  private async pod(name: string, wanted: readonly Wanted[]): Promise<NodePod> {
    const blank = this.bench.pod();
    const { uid = '' } = blank.metadata ?? {};
    const labels = { ...blank.labels, 'io.kubernetes.pod.name': name, 'io.kubernetes.pod.namespace': 'default' };
    const config = { ...blank, metadata: { name, uid, namespace: 'default', attempt: 0 }, labels };
    const sandbox = await this.bench.sandbox(config);
    for (const each of wanted) {
      const { script, stdin = false, tty = false } = each;
      const containerConfig = { ...this.bench.containerConfig(config, script, each.name), stdin, tty };
      const { podSandboxId } = sandbox;
      const asked = { podSandboxId, sandboxConfig: config, config: containerConfig };
      const { containerId } = await this.bench.ask('cri.createContainer', asked);
      await this.bench.ask('cri.startContainer', { containerId });
      if (name === 'done') await this.bench.exit(containerId);
    }
    if (name === 'done') await this.bench.ask('cri.stopPodSandbox', { podSandboxId: sandbox.podSandboxId });
    const runtime = await eventually(() => this.bench.ask('cri.podStatus', { uid }));
    return {
      uid,
      namespace: 'default',
      name,
      pod: { spec: { containers: wanted } } as unknown as Pod,
      status: null,
      runtime,
      mounted: [],
    };
  }

  async close(): Promise<void> {
    await this.golden?.close();
    await this.bench.removeAll();
    await this.bench.close();
  }
}
