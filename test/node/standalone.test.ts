/**
 * A standalone node as its owner sees it: manifests in a folder, real containers, the same on every runtime.
 *
 * One daemon serves all cases, which also shows that pods do not affect each other; its journals must verify and replay
 * at the end.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeChoice, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

/** The first crash-loop back-off, as upstream's. */
const BACKOFF_MS = 10_000;
/** The additional duration of a wait on a busy machine. */
const SLACK_MS = 9_000;

for (const runtime of runtimes) {
  const { skip } = requirement('containerd', runtime.unavailable);
  describe.skipIf(skip)(`a standalone node on ${runtime.name}`, () => nodeCases(runtime));
}

function nodeCases(choice: RuntimeChoice): void {
  let node: ObservedNode;
  beforeAll(async () => {
    node = await ObservedNode.on(choice);
    await node.start();
  });
  afterAll(() => node.close());
  const pod = (name: string, script: string, spec: object = {}) => shellPod(name, node.image, script, spec);
  const sharing = (name: string, script: string, spec: object = {}) => sharingPod(node, name, script, spec);

  describe('a manifest', () => {
    it('becomes a pod that runs, logs and is ready', async () => {
      node.write('hello.json', pod('hello', `echo hello from $0; ${SLEEP}`));
      await node.running('hello');
      await eventually('the log', () => node.containerLog('hello', 'c').includes('stdout F hello from'));
      const status = await node.untilPhase('hello', 'Running');
      expect(status.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
      expect(status.containerStatuses).toMatchObject([{ name: 'c', ready: true, restartCount: 0 }]);
    });

    it('that is replaced by a rename replaces its pod', async () => {
      node.write('renamed.json', pod('renamed', `echo first; ${SLEEP}`));
      const before = await node.running('renamed');
      node.write('renamed.json', pod('renamed', `echo second; ${SLEEP}`));
      const after = await replaced('renamed', before.id);
      expect(after.attempt).toBe(0);
      await eventually('the new log', () => node.containerLog('renamed', 'c').includes('second'));
    });

    it('that is rewritten in place replaces its pod', async () => {
      node.write('rewritten.json', pod('rewritten', `echo first; ${SLEEP}`));
      const before = await node.running('rewritten');
      const path = join(node.manifests, 'rewritten.json');
      writeFileSync(path, JSON.stringify(pod('rewritten', `echo second; ${SLEEP}`)));
      await replaced('rewritten', before.id);
      await eventually('the new log', () => node.containerLog('rewritten', 'c').includes('second'));
    });

    it('that is written again with the same content touches nothing', async () => {
      const content = pod('same', SLEEP);
      node.write('same.json', content);
      const before = await node.running('same');
      node.write('same.json', content);
      await sleep(1_500);
      expect(await node.instances('same')).toEqual([before]);
    });

    it('that is removed ends its pod, with the grace it asks for', async () => {
      const witness = node.file('grace');
      const script = `trap 'sleep 0.7; echo graceful > ${witness}; exit 0' TERM; echo up; while :; do sleep 0.05; done`;
      node.write('grace.json', sharing('grace', script, { terminationGracePeriodSeconds: 10 }));
      await eventually('it runs', () => node.containerLog('grace', 'c').includes('up'));
      node.remove('grace.json');
      await node.gone('grace');
      expect(readFileSync(witness, 'utf8')).toBe('graceful\n');
    });

    it('that is removed ends a pod that does not listen, when its grace is over', async () => {
      const script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
      node.write('deaf.json', pod('deaf', script, { terminationGracePeriodSeconds: 2 }));
      await eventually('it runs', () => node.containerLog('deaf', 'c').includes('up'));
      const removedAt = performance.now();
      node.remove('deaf.json');
      await node.gone('deaf');
      const tookMs = performance.now() - removedAt;
      expect(tookMs).toBeGreaterThan(1_900);
      expect(tookMs).toBeLessThan(2_000 + SLACK_MS);
    });

    async function replaced(name: string, id: string) {
      return eventually(`${name} runs anew`, async () => {
        const alive = (await node.instances(name)).filter(({ state }) => state === 'CONTAINER_RUNNING');
        return alive.length === 1 && alive[0]!.id !== id ? alive[0] : undefined;
      });
    }
  });

  describe('a bad manifest', () => {
    it.each([
      ['text that is no document', 'text.yaml', '}{ not: [a document', 'text.yaml'],
      ['another kind', 'kind.yaml', 'apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: x }\n', 'Deployment'],
      ['a pod without containers', 'empty.yaml', 'apiVersion: v1\nkind: Pod\nmetadata: { name: x }\n', 'containers'],
    ])('%s is named and costs no other pod anything', async (_what, file, text, words) => {
      node.write('good.json', pod('good', SLEEP));
      const before = await node.running('good');
      node.write(file, text);
      await eventually('the daemon says which file', () => lineWith(file, words));
      node.write('beside.json', pod('beside', SLEEP));
      await node.running('beside');
      expect(await node.instances('good')).toEqual([before]);
      node.remove('beside.json');
      node.remove(file);
      await node.gone('beside');
    });

    it('runs as soon as it is mended', async () => {
      node.write('mended.yaml', 'apiVersion: v1\nkind: Pod\n');
      await eventually('the daemon says which file', () => lineWith('mended.yaml', ''));
      node.write('mended.yaml', pod('mended', SLEEP));
      await node.running('mended');
    });

    const lineWith = (file: string, words: string) =>
      node.log.split('\n').find((line) => line.includes(file) && line.includes(words));
  });

  describe('a restart policy', () => {
    it.each([
      ['Never', 0, 'Succeeded'],
      ['Never', 3, 'Failed'],
      ['OnFailure', 0, 'Succeeded'],
    ])('%s with exit code %i ends the pod as %s', async (restartPolicy, exitCode, phase) => {
      const name = `once-${restartPolicy.toLowerCase()}-${exitCode}`;
      node.write(`${name}.json`, pod(name, `echo done; exit ${exitCode}`, { restartPolicy }));
      const status = await node.untilPhase(name, phase);
      const reason = exitCode === 0 ? 'Completed' : 'Error';
      expect(status.containerStatuses).toMatchObject([
        { restartCount: 0, ready: false, state: { terminated: { exitCode, reason } } },
      ]);
      expect(await node.instances(name)).toMatchObject([{ attempt: 0, exitCode }]);
    });

    it('OnFailure tries again after a failure, until it succeeds', async () => {
      const marker = node.file('tried');
      const script = `test -e ${marker} && exit 0; touch ${marker}; exit 4`;
      node.write('retry.json', sharing('retry', script, { restartPolicy: 'OnFailure' }));
      const status = await node.untilPhase('retry', 'Succeeded');
      expect(status.containerStatuses).toMatchObject([{ restartCount: 1, state: { terminated: { exitCode: 0 } } }]);
      expect(existsSync(marker)).toBe(true);
    });

    it('Always starts again at once, then backs off and says so', async () => {
      node.write('crash.json', pod('crash', 'exit 5'));
      const second = await eventually('the first restart', async () => {
        const found = await node.instances('crash');
        return found.find(({ attempt, state }) => attempt === 1 && state === 'CONTAINER_EXITED');
      });
      const waiting = await eventually('the back-off shows', async () => {
        const status = (await node.status('crash'))?.containerStatuses?.[0];
        return status?.state?.waiting?.reason === 'CrashLoopBackOff' ? status : null;
      });
      expect(waiting).toMatchObject({
        restartCount: 1,
        state: {
          waiting: { message: expect.stringContaining('back-off 10s restarting failed container=c pod=crash') },
        },
        lastState: { terminated: { exitCode: 5, reason: 'Error' } },
      });
      const third = await eventually(
        'the second restart',
        async () =>
          (await node.instances('crash')).find(({ attempt, startedAt }) => attempt === 2 && startedAt !== '0'),
        BACKOFF_MS + 2 * SLACK_MS,
      );
      const gapMs = Number((BigInt(third.startedAt) - BigInt(second.startedAt)) / 1_000_000n);
      expect(gapMs).toBeGreaterThanOrEqual(BACKOFF_MS - 100);
      expect(gapMs).toBeLessThan(BACKOFF_MS + SLACK_MS);
      expect(node.journalText(), 'the first restart is no back-off').not.toContain('back-off 0s');
      node.remove('crash.json');
      await node.gone('crash');
    });
  });

  it('a pod that crashes leaves its neighbour alone', async () => {
    node.write('calm.json', pod('calm', SLEEP));
    const calm = await node.running('calm');
    node.write('wild.json', pod('wild', 'sleep 0.2; exit 9', { restartPolicy: 'Never' }));
    const status = await node.untilPhase('wild', 'Failed');
    expect(status.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(9);
    expect(await node.instances('calm')).toEqual([calm]);
    expect((await node.status('calm'))?.phase).toBe('Running');
  });

  it('SIGTERM ends the daemon with 0 and no container; the next daemon finds them as they were', async () => {
    const beats = node.file('beats');
    const script = `trap 'exit 0' TERM; while :; do echo beat >> ${beats}; sleep 0.05; done`;
    node.write('alive.json', sharing('alive', script));
    const before = await node.running('alive');
    await node.untilPhase('alive', 'Running');
    await eventually('it beats', () => existsSync(beats));
    expect(await node.stop('SIGTERM')).toBe(0);
    const { length } = readFileSync(beats);
    await eventually('the container goes on without a daemon', () => readFileSync(beats).length > length);
    await node.start();
    await node.untilPhase('alive', 'Running');
    expect(await node.instances('alive')).toEqual([before]);
  });

  it('every journal verifies and replays to the same decisions', async () => {
    await node.stop();
    expect(node.incarnations()).toHaveLength(2);
    expect(node.journalFaults()).toEqual([]);
  });
}

/** A pod that sees the node's folder under the same path on every runtime. */
function sharingPod(node: ObservedNode, name: string, script: string, spec: object = {}) {
  const manifest = shellPod(name, node.image, script, spec);
  const volumeMounts = [{ name: 'shared', mountPath: node.directory }];
  const containers = manifest.spec.containers.map((container) => ({ ...container, volumeMounts }));
  const volumes = [{ name: 'shared', hostPath: { path: node.directory } }];
  return { ...manifest, spec: { ...manifest.spec, containers, volumes } };
}
