/**
 * The recorded commands kubectl attach and run, by WebSocket and by SPDY, with a daemon on a real containerd and
 * through an API server.
 */
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually } from '../support/daemon.ts';
import { Scene } from '../support/kubectl-scene.ts';
import { type Manifest, protocol, transcripts } from '../support/kubectl-transcripts.ts';
import { requirement } from '../support/require.ts';

const missing = ['kubectl', 'script'].find((tool) => spawnSync('which', [tool]).status !== 0);
const skip =
  requirement('kubectl', missing === undefined ? null : `there is no ${missing}`).skip ||
  requirement('containerd', containerdAvailable()).skip;

/** Its input ends with the first client that attaches. */
const once = (image: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'once' },
  spec: {
    nodeName: 'node1',
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: 1,
    automountServiceAccountToken: false,
    containers: [
      { name: 'once', image, stdin: true, stdinOnce: true, command: ['sh', '-c', 'cat; echo EOF seen; exit 5'] },
    ],
  },
});

describe.skipIf(skip).each([true, false])('kubectl attach, by WebSocket: %s', (isWebSocket) => {
  const suffix = isWebSocket ? 'websocket' : 'spdy';
  let scene: Scene;
  beforeAll(async () => {
    scene = await Scene.open({
      pods: ['web', 'lines', 'waiting', 'done', 'shell2'],
      more: (image) => [once(image)],
      settled: ['web Running 2', 'lines Running 1', 'done Succeeded 0', 'shell2 Running 2', 'once Running 1'],
    });
    // It writes its last line a while after it is ready.
    await eventually('the lines are written', async () => {
      const { stdout } = await scene.kubectl.run({ argv: ['logs', 'lines'] });
      return String(stdout).includes('eline 20');
    });
  });
  afterAll(() => scene?.close());

  it('attach', () =>
    scene.play(transcripts('attach-websocket', { name: `attach-${suffix}`, env: protocol(isWebSocket) }), 1));
});
