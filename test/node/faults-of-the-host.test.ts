/**
 * Faults 8, 9, 10 and 13: a full disk, a damaged journal, a machine that kills for memory, and a network that cannot be
 * set up. Each ends with the promises of a node.
 */
import { execFile } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { cgroupV1Available } from '../support/cgroups.ts';
import { containerdAvailable, containerdMajor } from '../support/containerd.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { BYSTANDER, FaultyNode } from '../support/faulty-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const run = promisify(execFile);

/** It takes some seconds; a busy machine may need many times that. */
const TIMEOUT_MS = patient(480_000);
/** Enough for folders and the journal of a few pods, and soon full. */
const DISK_BYTES = 24 * 1024 * 1024;
/** Enough inodes for the same, and soon used up. */
const DISK_INODES = 200;
/** How often the network fails before it is repaired; a full run is 500. */
const CNI_CYCLES = Number(process.env['STATELET_CNI_CYCLES'] ?? 24);
/** Ten seconds for each failure, and more for a busy machine. */
const CNI_TIMEOUT_MS = TIMEOUT_MS + CNI_CYCLES * 10_000;
/** Pods that fail at once: each waits longer after each attempt. */
const UNCONNECTED = 8;
/** A call to the runtime may take twice as long. */
const HANGING_MS = patient(60_000);
/** Less memory than the agent soon requests. */
const AGENT_BYTES = 1024 * 1024;

const { skip } = requirement('containerd', containerdAvailable());
/** containerd 2 forgets a sandbox whose network can neither be set up nor removed, and its address. */
const keepsBrokenSandboxes = !skip && containerdMajor() < 2;

describe.skipIf(skip)('a node on a machine in trouble', () => {
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.withBystander();
  }, TIMEOUT_MS);
  afterAll(() => node.close());
  afterEach(async () => {
    node.removeOthers();
    await node.keepsPromises([BYSTANDER]);
  }, TIMEOUT_MS);
  const write = (name: string, script = SLEEP, spec: object = {}) =>
    node.write(`${name}.json`, shellPod(name, node.image, script, spec));

  const network = () => join(node.containerd.directory, 'cni', '10-statelet.conflist');
  const plugin = (name: string, script: string) =>
    writeFileSync(join(node.containerd.directory, 'cni-bin', name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const addresses = () =>
    readdirSync(join(node.containerd.directory, 'ipam'), { recursive: true }).filter(isAddress).length;
  const failures = (method: string) => node.proxy.callsOf(method).filter(({ code }) => (code ?? 0) !== 0).length;

  it(
    `fault 13: a network that cannot be set up and not be taken down, ${CNI_CYCLES} times: no address leaks`,
    async () => {
      const good = readFileSync(network(), 'utf8');
      const before = addresses();
      const broken = JSON.parse(good) as { plugins: object[] };
      const plugins = [...broken.plugins, { type: 'statelet-broken' }];
      plugin('statelet-broken', 'test "$CNI_COMMAND" = DEL');
      writeFileSync(network(), JSON.stringify({ ...broken, plugins }));
      const names = Array.from({ length: UNCONNECTED }, (_, at) => `unconnected-${at}`);
      for (const name of names) write(name);
      await eventually('sandboxes were refused', () => failures('RunPodSandbox') >= CNI_CYCLES, CNI_TIMEOUT_MS);
      if (keepsBrokenSandboxes) {
        plugin('statelet-broken', 'exit 1');
        await eventually('they could not be taken down', () => failures('StopPodSandbox') > 0, TIMEOUT_MS);
      }
      writeFileSync(network(), good);
      await node.keepsPromises([BYSTANDER, ...names]);
      for (const name of names) node.remove(`${name}.json`);
      for (const name of names) await node.gone(name);
      await eventually('no address is leaked', () => addresses() === before, TIMEOUT_MS);
    },
    CNI_TIMEOUT_MS,
  );

  it(
    'fault 13: a network whose set-up hangs for one pod keeps no other from coming and going',
    async () => {
      const good = readFileSync(network(), 'utf8');
      const before = addresses();
      const hanging = `"ADD "*K8S_POD_NAME=hanging-node1*) exec sleep ${patient(600)};;`;
      plugin('statelet-slow', `case "$CNI_COMMAND $CNI_ARGS" in ${hanging} esac; exec "$(dirname "$0")/bridge"`);
      writeFileSync(network(), good.replace('"type":"bridge"', '"type":"statelet-slow"'));
      const asked = (pod: string) => node.proxy.callsOf('RunPodSandbox').filter((call) => node.podOf(call) === pod);
      write('hanging');
      await eventually('its network is set up', () => asked('hanging').length === 1, TIMEOUT_MS);
      const began = performance.now();
      for (const name of ['swift-1', 'swift-2', 'swift-3']) {
        write(name);
        await node.untilReady(name);
        node.remove(`${name}.json`);
        await node.gone(name);
      }
      expect(performance.now() - began).toBeLessThan(HANGING_MS);
      expect(
        asked('hanging').map(({ endedAtMs }) => endedAtMs),
        'it hangs',
      ).toEqual([undefined]);
      node.remove('hanging.json');
      await eventually('it is gone', async () => (await node.sandboxes('hanging')) === 0, TIMEOUT_MS);
      writeFileSync(network(), good);
      await eventually('no address is leaked', () => addresses() === before, TIMEOUT_MS);
    },
    TIMEOUT_MS,
  );

  describe('fault 10: the machine kills for memory', () => {
    const limited = { resources: { limits: { memory: '24Mi' } } };
    const greedy = 'sleep 1; exec tail /dev/zero';

    it.each(['app', 'sidecar'])(
      'the %s: it is reported, restarts, and affects no other pod',
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

  it.skipIf(cgroupV1Available() !== null)(
    'fault 10: the agent: it is killed and the next one takes everything up',
    async () => {
      const before = await node.instances(BYSTANDER);
      const group = join('/sys/fs/cgroup/memory', node.cgroupRoot, 'agent');
      mkdirSync(group);
      writeFileSync(join(group, 'memory.limit_in_bytes'), String(AGENT_BYTES));
      writeFileSync(join(group, 'cgroup.procs'), String(node.pid));
      write('meanwhile');
      await eventually('it was killed', async () => {
        // Every request needs memory.
        await node.context('kubelet/pods').catch(() => null);
        return !node.isRunning;
      });
      expect(readFileSync(join(group, 'memory.oom_control'), 'utf8')).toMatch(/oom_kill [1-9]/);
      await node.start();
      await node.keepsPromises([BYSTANDER, 'meanwhile']);
      expect(await node.instances(BYSTANDER)).toEqual(before);
      rmdirSync(group);
    },
    TIMEOUT_MS,
  );

  it(
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

  const noRoom = { options: `size=${DISK_BYTES}`, fill: 'cat /dev/zero > "$0/.ballast-0" || true' };
  const noInodes = {
    options: `nr_inodes=${DISK_INODES}`,
    // Not a folder: among the folders of pods it would count as orphaned and be removed.
    fill: 'i=0; while touch "$0/.ballast-$i" 2>/dev/null; do i=$((i+1)); done',
  };
  const isBallast = (name: string) => name.startsWith('.ballast-');
  const pods = () => join(node.rootDir, 'pods');
  const logs = () => node.logs;
  const journal = () => node.journal;

  it.each([
    ['pods', 'room', pods, noRoom, true],
    ['pods', 'inodes', pods, noInodes, true],
    ['logs', 'inodes', logs, noInodes, true],
    ['the journal', 'room', journal, noRoom, false],
    ['the journal', 'inodes', journal, noInodes, false],
  ] as const)(
    'fault 8: a disk of %s without %s stops no pod that runs, and what was refused comes when it has some',
    async (_of, _without, folder, { options, fill }, isRefused) => {
      const before = await node.instances(BYSTANDER);
      await node.stop();
      const disk = folder();
      await run('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk]);
      try {
        await run('sh', ['-c', fill, disk]);
        await node.start();
        write('crowded');
        if (isRefused) await eventually('it says that there is no room', () => node.log.includes('ENOSPC'), TIMEOUT_MS);
        else await node.untilReady('crowded');
        expect(await node.healthz()).toBe(true);
        expect(await node.instances(BYSTANDER)).toEqual(before);
        for (const name of readdirSync(disk).filter(isBallast)) rmSync(join(disk, name));
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

  it(
    'fault 16: a file system that turns read-only stops no pod that runs, and what was refused comes when it is writable',
    async () => {
      const before = await node.instances(BYSTANDER);
      await node.stop();
      await run('mount', ['-t', 'tmpfs', 'tmpfs', pods()]);
      try {
        await node.start();
        await run('mount', ['-o', 'remount,ro', pods()]);
        write('late');
        await eventually('it says why', () => node.log.includes('EROFS'), TIMEOUT_MS);
        expect(await node.healthz()).toBe(true);
        expect(await node.instances(BYSTANDER)).toEqual(before);
        await run('mount', ['-o', 'remount,rw', pods()]);
        await node.untilReady('late');
        node.remove('late.json');
        await node.gone('late');
        await node.stop();
      } finally {
        await run('umount', ['--lazy', pods()]);
      }
      await node.start();
    },
    TIMEOUT_MS,
  );

  it('every journal verifies and replays', () => node.keepsItsWord().then(() => node.start()), TIMEOUT_MS);
});

const isAddress = (name: string | Buffer): boolean => /\d+\.\d+\.\d+\.\d+$/.test(String(name));

function flipBit(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}
