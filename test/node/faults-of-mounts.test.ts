/**
 * Fault 14: file systems in pods that never answer. Each affects the pods that use it; others start, run, are measured
 * and stop as usual.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { exchange } from '../actors/server/exchange.ts';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { BYSTANDER, FaultyNode } from '../support/faulty-node.ts';
import { HungMount, hungMountsAvailable } from '../support/hung-mount.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

/** It takes some seconds; a busy machine may need many times that. */
const TIMEOUT_MS = patient(480_000);
/** More than the threads of a process by default. */
const HUNG = 5;
/**
 * For a busy machine. A pod that waits for the hanging file system, with five seconds for each attempt, takes longer.
 */
const NORMAL_MS = patient(30_000);

const containerd = requirement('containerd', containerdAvailable());
const { skip } = requirement('root', containerd.skip ? 'needs containerd' : hungMountsAvailable());

describe.skipIf(skip)('file systems that never answer', () => {
  let node: FaultyNode;
  const hung: HungMount[] = [];
  beforeAll(async () => {
    node = await FaultyNode.withBystander({ flags: ['--anonymous-auth=true'] });
  }, TIMEOUT_MS);
  afterEach(async () => {
    for (const mount of hung.splice(0)) await mount.close();
    node.removeOthers();
    await node.keepsPromises([BYSTANDER]);
  }, TIMEOUT_MS);
  afterAll(() => node.close());

  const write = (name: string, volume: object | null = null, mount: object = {}) => {
    const pod = shellPod(name, node.image, SLEEP);
    if (volume === null) return node.write(`${name}.json`, pod);
    const [only] = pod.spec.containers;
    const volumeMounts = [{ name: 'v', mountPath: '/v', ...mount }];
    const spec = { ...pod.spec, volumes: [{ name: 'v', ...volume }], containers: [{ ...only, volumeMounts }] };
    node.write(`${name}.json`, { ...pod, spec });
  };
  async function hang(path: string): Promise<string> {
    hung.push(await HungMount.at(path));
    return path;
  }

  /** A pod with each kind of access to file systems starts and ends meanwhile. */
  async function othersComeAndGo(what: string): Promise<void> {
    const before = await node.instances(BYSTANDER);
    const folder = node.file(`others-${what}`);
    mkdirSync(join(folder, 'part'), { recursive: true });
    writeFileSync(join(folder, 'part/file'), 'here');
    const began = performance.now();
    write(`${what}-plain`);
    write(`${what}-typed`, { hostPath: { path: folder, type: 'Directory' } });
    write(`${what}-part`, { hostPath: { path: folder, type: '' } }, { subPath: 'part' });
    write(`${what}-empty`, { emptyDir: { sizeLimit: '1Mi' } });
    const names = ['plain', 'typed', 'part', 'empty'].map((kind) => `${what}-${kind}`);
    for (const name of names) await node.untilReady(name);
    expect(performance.now() - began, 'the start of others').toBeLessThan(NORMAL_MS);
    const ended = performance.now();
    for (const name of names) node.remove(`${name}.json`);
    for (const name of names) await node.gone(name);
    expect(performance.now() - ended, 'the end of others').toBeLessThan(NORMAL_MS);
    expect(await node.healthz()).toBe(true);
    expect(await node.instances(BYSTANDER)).toEqual(before);
  }

  const measured = async () => {
    const { status, body } = await exchange('GET', '/stats/summary', { port: node.port });
    expect(status).toBe(200);
    return body.toString();
  };

  const waits = (pod: string, words: RegExp) =>
    eventually(
      `${pod} says what it waits for`,
      async () => node.log.split('\n').some((line) => line.includes(pod) && words.test(line)),
      TIMEOUT_MS,
    );

  it(
    'as hostPath: the pod says what does not answer, runs when that is gone, and costs others nothing meanwhile',
    async () => {
      for (let at = 0; at < HUNG; at++) {
        const path = await hang(node.file(`typed-${at}`));
        write(`typed-${at}`, { hostPath: { path, type: 'Directory' } });
      }
      for (let at = 0; at < HUNG; at++) await waits(`typed-${at}`, /did not answer within|still does not answer/);
      await othersComeAndGo('typed');
      for (const mount of hung.splice(0)) await mount.close();
      for (let at = 0; at < HUNG; at++) await node.untilReady(`typed-${at}`);
    },
    TIMEOUT_MS,
  );

  it(
    'as a part of a hostPath: the same',
    async () => {
      const path = await hang(node.file('parted'));
      for (const part of ['a', 'b', 'c']) write(`parted-${part}`, { hostPath: { path } }, { subPath: part });
      for (const part of ['a', 'b', 'c']) await waits(`parted-${part}`, /did not answer within|still does not answer/);
      await othersComeAndGo('parted');
    },
    TIMEOUT_MS,
  );

  it(
    'that only the runtime looks at: the same',
    async () => {
      const path = await hang(node.file('plain'));
      write('untyped', { hostPath: { path } });
      await eventually('the runtime was asked', () =>
        node.proxy.callsOf('StartContainer', 'CreateContainer').some((call) => node.podOf(call) === 'untyped'),
      );
      await othersComeAndGo('untyped');
    },
    TIMEOUT_MS,
  );

  it(
    'that a running pod has mounted in its volume: others are measured, and the pod goes',
    async () => {
      const known = new Set(await node.uids());
      write('holder', { emptyDir: { sizeLimit: '1Mi' } });
      await node.untilReady('holder');
      const [uid] = (await node.uids()).filter((each) => !known.has(each));
      const volume = join(node.rootDir, 'pods', uid!, 'volumes/kubernetes.io~empty-dir/v');
      await hang(join(volume, 'inside'));
      for (let round = 0; round < HUNG; round++) expect(await measured()).toContain(BYSTANDER);
      await othersComeAndGo('holder');
      node.remove('holder.json');
      await node.gone('holder');
    },
    TIMEOUT_MS,
  );

  it(
    'keeps no node from ending and starting again',
    async () => {
      const path = await hang(node.file('ending'));
      write('ending', { hostPath: { path, type: 'Directory' } });
      await waits('ending', /did not answer within/);
      const began = performance.now();
      expect(await node.stop()).toBe(0);
      await node.start();
      expect(performance.now() - began).toBeLessThan(NORMAL_MS);
    },
    TIMEOUT_MS,
  );

  it('every journal verifies and replays', () => node.keepsItsWord().then(() => node.start()), TIMEOUT_MS);
});
