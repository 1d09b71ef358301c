/**
 * Fault 12: a name server that does not answer. Whatever needs a name waits for it: the API server, a manifest URL,
 * probes of other machines. Nothing else waits.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { DeadNames, deadNamesAvailable, LOOKUP_MS } from '../support/dead-names.ts';
import { FaultyNode } from '../support/faulty-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const TIMEOUT_MS = patient(480_000);
/** More than the threads for lookups. */
const ASKING = 12;
/** Everything that waits for a lookup takes longer. */
const NORMAL_MS = LOOKUP_MS / 2;

const KUBECONFIG = `apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: 'https://api.dead.example:6443' } }]
users: [{ name: u, user: { token: t } }]
contexts: [{ name: x, context: { cluster: c, user: u } }]
current-context: x
`;

const containerd = requirement('containerd', containerdAvailable());
const { skip } = requirement('root', containerd.skip ? 'needs containerd' : deadNamesAvailable());

describe.skipIf(skip)('a name server that answers nothing', () => {
  const folder = mkdtempSync(join(tmpdir(), 'statelet-names-'));
  let names: DeadNames;
  let node: FaultyNode;
  let startedMs = 0;
  beforeAll(async () => {
    names = await DeadNames.start(folder);
    const kubeconfig = join(folder, 'kubeconfig');
    writeFileSync(kubeconfig, KUBECONFIG);
    const flags = [`--kubeconfig=${kubeconfig}`, '--manifest-url=http://manifests.dead.example/pods.yaml'];
    const began = performance.now();
    node = await FaultyNode.create({ within: names.within, flags });
    startedMs = performance.now() - began;
  }, TIMEOUT_MS);
  afterAll(async () => {
    await node.close();
    names.close();
    rmSync(folder, { recursive: true });
  });

  const soon = async (what: string, work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    expect(performance.now() - began, what).toBeLessThan(NORMAL_MS);
  };

  it('keeps no node from starting', () => {
    expect(startedMs).toBeLessThan(NORMAL_MS);
  });

  it(
    'is asked by many probes, and no pod waits for the answers',
    async () => {
      const [only] = shellPod('asking', node.image, SLEEP).spec.containers;
      const probe = (at: number) => ({
        httpGet: { host: `p${at}.dead.example`, port: 80 },
        periodSeconds: 1,
        timeoutSeconds: 300,
      });
      const containers = Array.from({ length: ASKING }, (_, at) => ({
        ...only,
        name: `c${at}`,
        readinessProbe: probe(at),
      }));
      node.write('asking.json', shellPod('asking', node.image, SLEEP, { containers }));
      await eventually('all run', async () => (await node.instances('asking')).length === ASKING, TIMEOUT_MS);
      await eventually('names are asked for', () => names.questions > 4, TIMEOUT_MS);
      for (const round of [1, 2, 3]) {
        await soon(`a pod comes and goes, ${round}`, async () => {
          node.write(`plain-${round}.json`, shellPod(`plain-${round}`, node.image, SLEEP));
          await node.untilReady(`plain-${round}`);
          expect(await node.healthz()).toBe(true);
          node.remove(`plain-${round}.json`);
          await node.gone(`plain-${round}`);
        });
      }
      await soon('who asked goes', async () => {
        node.remove('asking.json');
        await eventually('it is gone', async () => (await node.sandboxes('asking')) === 0, NORMAL_MS);
      });
    },
    TIMEOUT_MS,
  );

  it(
    'keeps its promises, and the journal verifies and replays',
    async () => {
      node.write('last.json', shellPod('last', node.image, SLEEP));
      await node.keepsPromises(['last']);
      await soon('the node ends', () => node.keepsItsWord());
    },
    TIMEOUT_MS,
  );
});
