/** The kube ports of one node, connected to a test API server. */
import { randomBytes } from 'node:crypto';
import type { ObservedRequest } from '../../../src/actors/kube/client.ts';
import { connectKube } from '../../../src/actors/kube/index.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import type { Json } from '../../../src/kernel/json.ts';
import type { KubeSettings, KubeTarget } from '../../../src/machines/model/operations/kube.ts';

export const settings = (kubeconfig: string, more: Partial<KubeSettings> = {}): KubeSettings => ({
  kubeconfig,
  role: 'node',
  qps: 50,
  burst: 100,
  eventQps: 50,
  eventBurst: 100,
  heartbeatTimeoutMs: 10_000,
  userAgent: 'statelet/test',
  certificateFile: null,
  isBootstrapping: false,
  ...more,
});

/** Calls ports as the kernel does. */
export function bench(vault = new Vault(randomBytes(32))) {
  const seen: ObservedRequest[] = [];
  const connection = connectKube({ vault, onRequest: (exchange) => seen.push(exchange) });
  const ask = (
    name: keyof typeof connection.ports,
    input: object,
    more: { signal?: AbortSignal; emit?: (item: never) => void } = {},
  ) => {
    const port = connection.ports[name] as (call: unknown) => Promise<unknown>;
    const call = { id: 1, input, resume: false, signal: new AbortController().signal, emit: () => undefined, ...more };
    return port(call) as Promise<never>;
  };
  return { vault, connection, ask, seen };
}

export const pods = (name?: string): KubeTarget => ({
  client: 'kube',
  apiVersion: 'v1',
  resource: 'pods',
  namespace: 'default',
  ...(name === undefined ? {} : { name }),
});

export const pod = (name: string, more: Record<string, Json> = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'default' },
  spec: {
    nodeName: 'n1',
    automountServiceAccountToken: false,
    containers: [{ name: 'app', image: 'busybox' }],
    ...more,
  },
});
