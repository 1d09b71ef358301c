/**
 * The race of CVE-2021-25741 through the whole agent and containerd: in a loop, a container replaces the folder that
 * its neighbours mount by subPath with a link to the node. Neighbours see the volume or are rejected, but never see the
 * node.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { needsMounts } from '../actors/volume/support.ts';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const CANARY = 'canary-of-the-node-8c1f';
const NEIGHBOURS = 20;
/** After this many attempts that encountered the link, none may have shown the node. */
const REFUSALS = 10;
const WAIT_MS = 150_000;
/** A neighbour that ended or could not start is retried within a second, a rejected one within ten. */
const configuration = `featureGates: { KubeletCrashLoopBackOffMax: true }
crashLoopBackOff: { maxContainerRestartPeriod: ${patient(1)}s }`;
const volumes = [{ name: 'v', emptyDir: {} }];

/**
 * `part` is in turn the folder, nothing, the link for a moment, and nothing, until the test has seen enough. Then the
 * folder stays, because a container whose folder is removed between its mount and its start cannot start.
 */
const attack = (folderOfNode: string) =>
  [
    'cd /v',
    'while [ ! -e /v/stop ]',
    'do rm -rf part own; mkdir own; mv own part',
    `rm -rf part; ln -s ${folderOfNode} part; usleep 3000; rm -f part`,
    'done',
    'mkdir -p part',
    SLEEP,
  ].join('\n');

/** The folder of the one pod's emptyDir on the node. */
const volumeOf = ({ directory }: ObservedNode) => {
  const pods = join(directory, 'root/pods');
  return join(pods, readdirSync(pods)[0] ?? 'none', 'volumes/kubernetes.io~empty-dir/v');
};

const [, containerd] = runtimes;
if (!containerd) throw new Error('containerd is one of the runtimes');
const { skip } = requirement('containerd', containerdAvailable());

describe.skipIf(skip || needsMounts)('a subPath that is exchanged for a link while containers start', () => {
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  beforeAll(async () => {
    runtime = await containerd.start();
    node = new ObservedNode(runtime, { configuration });
    await node.start();
  });
  afterAll(async () => {
    for (const name of readdirSync(node.manifests)) node.remove(name);
    await node.close();
    await runtime.close();
  });

  const neighbour = (at: number) => ({
    ...shellPod('', node.image, 'ls -a /part; echo listed').spec.containers[0],
    name: `n${at}`,
    volumeMounts: [{ name: 'v', mountPath: '/part', subPath: 'part' }],
  });
  const logs = () => Array.from({ length: NEIGHBOURS }, (_, at) => node.containerLog('race', `n${at}`));

  it(
    'shows no container a file of the node',
    async () => {
      const folderOfNode = join(node.directory, 'of-the-node');
      mkdirSync(folderOfNode);
      writeFileSync(join(folderOfNode, CANARY), '');
      const attacker = {
        ...shellPod('', node.image, attack(folderOfNode)).spec.containers[0],
        volumeMounts: [{ name: 'v', mountPath: '/v' }],
      };
      const containers = [attacker, ...Array.from({ length: NEIGHBOURS }, (_, at) => neighbour(at))];
      node.write('race.json', shellPod('race', node.image, '', { volumes, containers }));

      // Logs of earlier attempts are removed, so the results of each poll are kept.
      const listed = new Set<number>();
      let hasEscaped = false;
      const observe = () =>
        logs().forEach((log, at) => {
          if (log.includes('listed')) listed.add(at);
          hasEscaped ||= log.includes(CANARY);
        });
      const refusals = () => node.log.split('leads out of its volume through a link').length - 1;
      await eventually(
        `${REFUSALS} attempts met the link, or a neighbour saw the node`,
        () => {
          observe();
          return hasEscaped || refusals() >= REFUSALS;
        },
        WAIT_MS,
      );
      writeFileSync(join(volumeOf(node), 'stop'), '');
      await eventually(
        'each neighbour has listed the folder, or one saw the node',
        () => {
          observe();
          return hasEscaped || listed.size === NEIGHBOURS;
        },
        WAIT_MS,
      );
      expect(hasEscaped).toBe(false);
      expect(node.log).not.toContain(CANARY);
    },
    patient(2 * WAIT_MS + 20_000),
  );

  it('the journal verifies and replays', async () => {
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
  });
});
