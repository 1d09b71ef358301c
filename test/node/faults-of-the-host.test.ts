/**
 * Faults 8, 9, 10 and 13: a disk without room, a journal that was hurt, a machine that kills for memory, and a network
 * that cannot be set up. Each ends with the promises of a node.
 */
import { execFile } from 'node:child_process';
import { appendFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { FaultyNode } from '../support/faulty-node.ts';
import { requirement } from '../support/require.ts';

const run = promisify(execFile);

/** Some seconds; a busy machine may take many times that. */
const TIMEOUT_MS = 240_000;
/** Room for folders and the journal of a few pods, and soon full. */
const DISK_BYTES = 24 * 1024 * 1024;
const BYSTANDER = 'bystander';

const { skip } = requirement('containerd', containerdAvailable());

describe.skipIf(skip)('a node on a machine in trouble', () => {
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.create();
    write(BYSTANDER);
    await node.untilReady(BYSTANDER);
  });
  afterAll(() => node.close());
  afterEach(async () => {
    for (const file of readdirSync(node.manifests)) if (file !== `${BYSTANDER}.json`) node.remove(file);
    await node.keepsPromises([BYSTANDER]);
  }, TIMEOUT_MS);
  const write = (name: string, script = SLEEP, spec: object = {}) =>
    node.write(`${name}.json`, shellPod(name, node.image, script, spec));

  test(
    'fault 13: a network that cannot be set up and not be taken down: the pod runs when it is mended, no address leaks',
    async () => {
      const { directory } = node.containerd;
      const conflist = join(directory, 'cni', '10-statelet.conflist');
      const addresses = () => readdirSync(join(directory, 'ipam'), { recursive: true }).filter(isAddress);
      const failures = (method: string) => node.proxy.callsOf(method).filter(({ code }) => (code ?? 0) !== 0).length;
      const good = readFileSync(conflist, 'utf8');
      const before = addresses();
      const broken = JSON.parse(good) as { plugins: object[] };
      const plugins = [...broken.plugins, { type: 'statelet-no-such-plugin' }];
      writeFileSync(conflist, JSON.stringify({ ...broken, plugins }));
      write('unconnected');
      await eventually('the sandbox was refused', () => failures('RunPodSandbox') > 0, TIMEOUT_MS);
      await eventually('it could not be taken down', () => failures('StopPodSandbox') > 0, TIMEOUT_MS);
      writeFileSync(conflist, good);
      await node.keepsPromises([BYSTANDER, 'unconnected']);
      expect(sandboxesMade(), 'one that was refused and one that runs').toBe(2);
      node.remove('unconnected.json');
      await node.gone('unconnected');
      await eventually('no address is leaked', () => addresses().length === before.length, TIMEOUT_MS);
    },
    TIMEOUT_MS,
  );

  const sandboxesMade = () =>
    node.proxy.callsOf('RunPodSandbox').filter((call) => node.podOf(call) === 'unconnected').length;

  describe('fault 10: the machine kills for memory', () => {
    const limited = { resources: { limits: { memory: '24Mi' } } };
    const greedy = 'sleep 1; exec tail /dev/zero';

    test.each(['app', 'sidecar'])(
      'the %s: it says so, starts again, and costs nobody else anything',
      async (who) => {
        const before = await node.instances(BYSTANDER);
        const name = `greedy-${who}`;
        const container = (script: string, more: object) => ({
          image: node.image,
          command: ['sh', '-c', script],
          ...more,
        });
        const calm = container(SLEEP, { name: 'calm' });
        const eater = container(greedy, { name: 'eater', ...limited });
        const spec =
          who === 'app'
            ? { containers: [calm, eater] }
            : { containers: [calm], initContainers: [{ ...eater, restartPolicy: 'Always' }] };
        write(name, SLEEP, spec);
        const status = await eventually(
          'it was killed',
          async () => {
            const { containerStatuses = [], initContainerStatuses = [] } = (await node.status(name)) ?? {};
            return [...containerStatuses, ...initContainerStatuses].find(
              ({ name: of, restartCount }) => of === 'eater' && restartCount > 0,
            );
          },
          TIMEOUT_MS,
        );
        expect(status.lastState?.terminated).toMatchObject({ reason: 'OOMKilled', exitCode: 137 });
        const calmOnes = (await node.instances(name)).filter(({ state }) => state === 'CONTAINER_RUNNING');
        expect(calmOnes.length).toBeGreaterThanOrEqual(1);
        expect(await node.instances(BYSTANDER), 'who has nothing to do with it').toEqual(before);
      },
      TIMEOUT_MS,
    );
  });

  test(
    'fault 9: a journal whose end is torn and whose middle is flipped stops no start',
    async () => {
      const before = await node.instances(BYSTANDER);
      await node.stop('SIGKILL');
      const segments = readdirSync(node.journal).filter((file) => file.endsWith('.ndjson'));
      const newest = join(node.journal, segments.toSorted().at(-1) ?? '');
      flipBit(newest, Math.floor(statSync(newest).size / 2));
      appendFileSync(newest, '1a2b3c4d {"n":99');
      await node.start();
      await node.keepsPromises([BYSTANDER]);
      expect(await node.instances(BYSTANDER)).toEqual(before);
      expect(node.statelet('verify', node.journal).code, 'the damage is told').not.toBe(0);
      for (const file of segments) rmSync(join(node.journal, file));
    },
    TIMEOUT_MS,
  );

  test(
    'fault 8: a disk without room stops no pod that runs, and what was refused comes when there is room',
    async () => {
      const before = await node.instances(BYSTANDER);
      await node.stop();
      const disk = join(node.rootDir, 'pods');
      const ballast = join(disk, '.ballast');
      await run('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES}`, 'tmpfs', disk]);
      try {
        await run('sh', ['-c', `cat /dev/zero > ${ballast} || true`]);
        await node.start();
        write('crowded');
        await eventually('it says that there is no room', () => node.log.includes('ENOSPC'), TIMEOUT_MS);
        expect(await node.healthz()).toBe(true);
        expect(await node.instances(BYSTANDER)).toEqual(before);
        rmSync(ballast);
        await node.untilReady('crowded');
        node.remove('crowded.json');
        await node.gone('crowded');
        await node.stop();
      } finally {
        await run('umount', ['--lazy', disk]);
      }
      await node.start();
    },
    TIMEOUT_MS,
  );

  test('every journal verifies and replays', () => node.keepsItsWord().then(() => node.start()), TIMEOUT_MS);
});

const isAddress = (name: string | Buffer): boolean => /\d+\.\d+\.\d+\.\d+$/.test(String(name));

function flipBit(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}
