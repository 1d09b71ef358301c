/** Which one of several pods with the same name is served: the one that its source has. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { containerLogsEndpoints } from '../../../src/actors/server/endpoints/container-logs.ts';
import { checkpointEndpoints } from '../../../src/actors/server/endpoints/pods.ts';
import { type NodePod, podNamed } from '../../../src/actors/server/node-pods.ts';
import type { NodeView } from '../../../src/actors/server/node-view.ts';
import { runEndpoints, streamingEndpoints } from '../../../src/actors/server/streaming/endpoints.ts';
import { type Front, openFront } from '../../support/endpoint-front.ts';
import { exchange } from './exchange.ts';

let folder: string;
let pods: readonly NodePod[];
let asked: string[];
let front: Front;

/** A running container `main`, whose instance has the pod's uid as its name. */
function podOf(uid: string, known: Partial<NodePod> = {}): NodePod {
  const log_path = join(folder, uid);
  writeFileSync(log_path, `2026-11-21T07:00:00.5Z stdout F of ${uid}\n`);
  return {
    uid,
    name: 'p',
    namespace: 'default',
    pod: { metadata: { name: 'p', namespace: 'default', uid }, spec: { containers: [{ name: 'main' }] } },
    status: { containerStatuses: [{ name: 'main', state: { running: {} }, containerID: `r://${uid}` }] },
    runtime: {
      sandboxes: [{ id: uid, state: 'SANDBOX_READY' }],
      containers: [{ id: uid, metadata: { name: 'main' }, state: 'CONTAINER_RUNNING', log_path }],
    },
    mounted: [],
    ...known,
  } as unknown as NodePod;
}

const ORPHAN = { ending: { isOrphan: true, isStopped: false, isRejected: false } };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'statelet-namesakes-'));
  pods = [podOf('old', ORPHAN), podOf('new'), podOf('remains', { pod: null })];
  asked = [];
  const view = { pods: () => pods } as NodeView;
  const url = async ({ containerId = '', podSandboxId = '' }: { containerId?: string; podSandboxId?: string }) => {
    asked.push(containerId + podSandboxId);
    throw new Error('asked');
  };
  front = await openFront([
    ...containerLogsEndpoints(view, false),
    ...checkpointEndpoints({ view, rootDir: folder, checkpoint: url }),
    ...runEndpoints(view, url),
    ...streamingEndpoints(view, { exec: url, attach: url, portForward: url }),
  ]);
});

afterEach(async () => {
  await front.close();
  rmSync(folder, { recursive: true });
});

const ask = (method: string, path: string, headers: string[] = []) =>
  exchange(method, path, { port: front.port, isPlain: true, headers });

const STREAMS = ['/exec/default/p/main?output=1', '/attach/default/p/main?output=1', '/portForward/default/p'];
const UPGRADE = ['Connection: Upgrade', 'Upgrade: SPDY/3.1'];

it('the pod that its source has is asked, not one that only ends', async () => {
  expect(String((await ask('GET', '/containerLogs/default/p/main')).body)).toBe('of new\n');
  await ask('POST', '/checkpoint/default/p/main');
  await ask('POST', '/run/default/p/main?cmd=true');
  for (const path of STREAMS) await ask('POST', path, UPGRADE);
  expect(asked).toEqual(['new', 'new', 'new', 'new', 'new']);
});

it('a pod that its source has no more is not there, and the later one of two is meant', async () => {
  const served = (...known: NodePod[]) => podNamed(known, 'default', 'p')?.uid;
  expect(served(podOf('old', ORPHAN), podOf('remains', { pod: null }))).toBeUndefined();
  expect(served(podOf('first'), podOf('second'))).toBe('second');
  pods = [podOf('old', ORPHAN)];
  expect((await ask('GET', '/containerLogs/default/p/main')).status).toBe(404);
  expect((await ask('POST', '/run/default/p/main?cmd=true')).status).toBe(404);
});
