/**
 * The recorded kubectl commands for pods and nodes, with a daemon on a real containerd and through an API server:
 * debug, describe and get, delete and wait, logs of restarted pods, raw requests, top.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import { Scene } from '../support/kubectl-scene.ts';
import { type Manifest, transcripts } from '../support/kubectl-transcripts.ts';
import { requirement } from '../support/require.ts';

const missing = ['kubectl', 'script'].find((tool) => spawnSync('which', [tool]).status !== 0);
const skip =
  requirement('kubectl', missing === undefined ? null : `there is no ${missing}`).skip ||
  requirement('containerd', containerdAvailable()).skip;

const STATIC = join(import.meta.dirname, '../golden/http/fixtures/static.yaml');
const IGNORES = "trap '' TERM; while :; do sleep 1; done";
/** The deleted pods, by the remarks of the recording. */
const DELETED: Readonly<Record<string, readonly [string, object?, number?]>> = {
  d1: ["trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"],
  d2: [IGNORES],
  d3: ['exec sleep 100000'],
  d4: ['exec sleep 100000'],
  d5: ['exec sleep 100000'],
  d6: ["trap 'sleep 2; exit 0' TERM; while :; do sleep 0.1; done"],
  d7: [IGNORES, { lifecycle: { preStop: { exec: { command: ['sleep', '1'] } } } }, 2],
};

const deleted = (image: string): Manifest[] =>
  Object.entries(DELETED).map(([name, [script, container = {}, grace = 30]]) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: 'node1',
      terminationGracePeriodSeconds: grace,
      automountServiceAccountToken: false,
      containers: [{ name: 'c', image, command: ['sh', '-c', script], ...container }],
    },
  }));

const PODS = ['web', 'lines', 'hostnet', 'crash', 'waiting', 'done', 'initwait', 'shell', 'shell2', 'target'];

describe.skipIf(skip)('the recorded commands of kubectl on pods', () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await Scene.open({
      pods: PODS,
      settled: ['web Running 2', 'lines Running 1', 'hostnet Running 1', 'done Succeeded 0', 'target Running 1'],
    });
  });
  afterAll(() => scene?.close());

  it('describe', () => scene.play(transcripts('describe'), 2));
  it('get-raw', () => {
    const recorded = transcripts('get-raw').map((each) => ({
      ...each,
      argv: each.argv.map((word) => word.replace('node1:${PORT}', `node1:${scene.node.port}`)),
    }));
    return scene.play(recorded, 2);
  });
  it('top', () => scene.play(transcripts('top'), 1));
  it('debug', () => scene.play(transcripts('debug'), 1));
  it('events, to the end of the pods', async () => {
    await scene.clear();
    await scene.judgeEvents([...PODS, 'node1']);
  });
});

describe.skipIf(skip)('the recorded commands of kubectl on pods that come and go', () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await Scene.open({
      pods: ['web', 'waiting', 'done', 'again', 'long'],
      more: deleted,
      settled: ['web Running 2', 'again Running 1', 'long Succeeded 0', 'd7 Running 1', 'd1 Running 1', 'd2 Running 1'],
    });
    scene.node.write(
      'static.yaml',
      readFileSync(STATIC, 'utf8').replaceAll(/docker.io\S+busybox:latest/g, scene.containerd.image),
    );
  });
  afterAll(async () => {
    // The mirror pod would return after each deletion.
    scene?.node.remove('static.yaml');
    await scene?.close();
  });

  it('delete-wait', () => scene.play(transcripts('delete-wait'), 1));
  it('logs-more', () => scene.play(transcripts('logs-more'), 1));
});
