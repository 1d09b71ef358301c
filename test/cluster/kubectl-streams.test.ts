/**
 * The recorded kubectl commands for streams, with a daemon on a real containerd and through an API server: exec and cp
 * by WebSocket and by SPDY, and logs. Each difference is listed in `test/golden/kubectl-excused.ts`.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import { Scene } from '../support/kubectl-scene.ts';
import { type Manifest, transcripts } from '../support/kubectl-transcripts.ts';
import { requirement } from '../support/require.ts';

const missing = ['kubectl', 'script'].find((tool) => spawnSync('which', [tool]).status !== 0);
const skip =
  requirement('kubectl', missing === undefined ? null : `there is no ${missing}`).skip ||
  requirement('containerd', containerdAvailable()).skip;

/** Writes five lines and ends while a client follows its log. */
const ender = (image: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'ender' },
  spec: {
    nodeName: 'node1',
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    containers: [{ name: 'ender', image, command: ['sh', '-c', 'for i in 1 2 3 4 5; do echo n; sleep 1; done'] }],
  },
});

describe.skipIf(skip)('the recorded commands of kubectl', () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await Scene.open({
      pods: ['web', 'lines', 'hostnet', 'waiting', 'done', 'initwait', 'crash', 'shell'],
      more: (image) => [ender(image)],
      settled: ['web Running 2', 'lines Running 1', 'hostnet Running 1', 'done Succeeded 0', 'shell Running 2'],
    });
  });
  afterAll(() => scene?.close());

  it.each(['exec-websocket', 'exec-spdy', 'logs'])('%s', (file) => scene.play(transcripts(file), 3));

  it.each(['cp-websocket', 'cp-spdy'])('%s, with files that come back as they went', async (file) => {
    const { directory, kubectl } = scene;
    const big = randomBytes(3_000_000);
    writeFileSync(join(directory, 'a.txt'), 'copied in\n', { mode: 0o640 });
    mkdirSync(join(directory, 'd'), { recursive: true });
    for (const name of ['one', 'two']) writeFileSync(join(directory, 'd', name), name);
    writeFileSync(join(directory, 'big'), big);
    await kubectl.run({ argv: ['exec', 'lines', '--', 'rm', '-rf', '/tmp/a.txt', '/tmp/d', '/tmp/big'] });
    await scene.play(transcripts(file), 1);
    expect(readFileSync(join(directory, 'back.txt'), 'utf8')).toBe('copied in\n');
    expect(readFileSync(join(directory, 'bigback')).equals(big)).toBe(true);
    expect(readFileSync(join(directory, 'dback/two'), 'utf8')).toBe('two');
    for (const name of ['back.txt', 'back2.txt', 'bigback', 'dback']) {
      rmSync(join(directory, name), { recursive: true, force: true });
    }
  });
});
