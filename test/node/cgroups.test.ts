/**
 * The kernel's limits for a node's pods: the files of cgroup v1 with a real containerd, compared with the recorded
 * files of the Go kubelet for the same pods.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { cgroupExists, cgroupV1Available, cgroupValue, removeCgroupRoot } from '../support/cgroups.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

const GOLDEN = join(import.meta.dirname, '../golden/pods/cases');
const containerd = runtimes.find(({ name }) => name === 'containerd')!;
const missing = containerd.unavailable ?? cgroupV1Available();
const { skip } = requirement('containerd', missing);

/** The recorded files that an agent decides about, with the controller of each. */
const FILES: Readonly<Record<string, string>> = {
  'cpu.shares': 'cpu',
  'cpu.cfs_period_us': 'cpu',
  'cpu.cfs_quota_us': 'cpu',
  'memory.limit_in_bytes': 'memory',
  'pids.max': 'pids',
};

type Values = Readonly<Record<string, string>>;

/** The files of a recorded pod `p`, by container (empty: the pod's own group). */
function recorded(name: string): Readonly<Record<string, Values>> {
  const { cgroups } = JSON.parse(readFileSync(join(GOLDEN, name, 'extra.json'), 'utf8'));
  const groups = Object.entries(cgroups[0] as Record<string, Values>);
  return Object.fromEntries(
    groups.flatMap(([path, values]) => {
      const [, container = ''] = /pod<uid:p>(?:\/<cid:(\w+):0>)?$/.exec(path) ?? [null, null];
      return container === null ? [] : [[container, values] as const];
    }),
  );
}

const valuesOf = (path: string): Values =>
  Object.fromEntries(Object.entries(FILES).map(([file, controller]) => [file, cgroupValue(controller, path, file)!]));

const only = (values: Values): Values => Object.fromEntries(Object.keys(FILES).map((file) => [file, values[file]!]));

describe.skipIf(skip)('the cgroups of a node on containerd', () => {
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  let kubepods: string;
  let leftover: ReturnType<typeof spawn>;

  beforeAll(async () => {
    runtime = await containerd.start();
    node = new ObservedNode(runtime, { configuration: 'systemReserved: { cpu: 200m, memory: 100Mi }' });
    kubepods = `${node.cgroupRoot}/kubepods`;
    leftover = leave(`${kubepods}/burstable/pod00000000-dead`);
    await node.start();
  });
  afterAll(async () => {
    leftover.kill('SIGKILL');
    await node.close();
    await runtime.close();
    removeCgroupRoot(node.cgroupRoot);
  });

  /** The group of a pod of an earlier agent, with a process in it. */
  function leave(path: string): ReturnType<typeof spawn> {
    const process = spawn('sleep', ['600'], { stdio: 'ignore' });
    for (const controller of ['cpu', 'memory', 'pids']) {
      const folder = join('/sys/fs/cgroup', controller, path);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'cgroup.procs'), String(process.pid));
    }
    return process;
  }

  /** Writes a recorded pod as a manifest; resolves with its group and the groups of its containers when all run. */
  async function live(name: string) {
    const { metadata: _, spec, ...rest } = parse(readFileSync(join(GOLDEN, name, 'objects.yaml'), 'utf8'));
    const containers = spec.containers.map((each: object) => ({
      ...each,
      image: node.image,
      imagePullPolicy: 'IfNotPresent',
    }));
    const { nodeName: _node, ...own } = spec;
    node.write(`${name}.json`, { ...rest, metadata: { name }, spec: { ...own, containers } });
    const status = await eventually(`every container of ${name} runs`, async () => {
      const known = await node.status(name);
      return known?.containerStatuses?.every(({ state }) => state?.running) ? known : null;
    });
    const known = (await node.context('kubelet/status')) as { pods: Record<string, { uid: string; name: string }> };
    const { uid } = Object.values(known.pods).find((pod) => pod.name === `${name}-node1`)!;
    const ids = Object.fromEntries(
      status.containerStatuses!.map((each) => [each.name, each.containerID!.replace('containerd://', '')]),
    );
    return { uid, ids, group: `${kubepods}/burstable/pod${uid}` };
  }

  it('limit all pods to the capacity of the node by default', async () => {
    await eventually('they are held', () => Number(cgroupValue('pids', kubepods, 'pids.max')) > 0 || null);
    expect(valuesOf(kubepods)).toMatchObject({
      'cpu.shares': String(cpus().length * 1024),
      'memory.limit_in_bytes': String(totalmem()),
      'pids.max': expect.stringMatching(/^\d+$/),
    });
    await eventually('the last level is', () => cgroupValue('cpu', `${kubepods}/besteffort`, 'cpu.shares') === '2');
  });

  it('of pods that are gone are removed with what ran in them', async () => {
    if (leftover.exitCode === null && leftover.signalCode === null) await once(leftover, 'exit');
    expect(leftover.signalCode).toBe('SIGKILL');
    await eventually('the group is gone', () => !cgroupExists(`${kubepods}/burstable/pod00000000-dead`));
  });

  it.each(['qos-burstable', 'pod-level-resources'])('of the pod %s have the recorded values', async (name) => {
    const { group, ids } = await live(name);
    for (const [container, wanted] of Object.entries(recorded(name))) {
      const path = container === '' ? group : `${group}/${ids[container]}`;
      expect({ container, ...valuesOf(path) }).toEqual({ container, ...only(wanted) });
      if (container === '' || container === 'bigmem') continue;
      const [pid] = cgroupValue('pids', path, 'cgroup.procs')!.split('\n');
      expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim()).toBe(wanted['oom_score_adj']);
    }
  });

  it('give the level of burstable pods the shares of all of them, and take them back', async () => {
    const shares = () => cgroupValue('cpu', `${kubepods}/burstable`, 'cpu.shares');
    // 150m and 1m of qos-burstable, and 200m of pod-level-resources.
    await eventually('the sum', () => shares() === String(Math.floor((351 * 1024) / 1000)));
    node.remove('pod-level-resources.json');
    await node.gone('pod-level-resources');
    await eventually('the rest', () => shares() === String(Math.floor((151 * 1024) / 1000)));
  });

  it('of a pod that ended are gone', async () => {
    const { group } = await live('qos-burstable');
    expect(cgroupExists(group)).toBe(true);
    node.remove('qos-burstable.json');
    await node.gone('qos-burstable');
    await eventually('its group is gone', () => !cgroupExists(group));
  });

  it('hold a container to other resources from one moment to the next', async () => {
    const resources = { requests: { cpu: '100m' }, limits: { cpu: '200m', memory: '64Mi' } };
    const { spec, ...pod } = shellPod('resized', node.image, SLEEP);
    const containers = spec.containers.map((each) => ({ ...each, resources }));
    node.write('resized.json', { ...pod, spec: { ...spec, containers } });
    const { id, startedAt } = await node.running('resized');
    const known = (await node.context('kubelet/status')) as { pods: Record<string, { uid: string; name: string }> };
    const { uid } = Object.values(known.pods).find(({ name }) => name === 'resized-node1')!;
    const path = `${kubepods}/burstable/pod${uid}/${id}`;
    expect(valuesOf(path)).toMatchObject({ 'cpu.cfs_quota_us': '20000', 'memory.limit_in_bytes': '67108864' });
    const linux = { cpu_shares: '51', cpu_quota: '10000', cpu_period: '100000', memory_limit_in_bytes: '50331648' };
    await node.client.call('UpdateContainerResources', { container_id: id, linux }, { timeoutMs: 10_000 });
    expect(valuesOf(path)).toMatchObject({
      'cpu.shares': '51',
      'cpu.cfs_quota_us': '10000',
      'memory.limit_in_bytes': '50331648',
    });
    expect(await node.running('resized')).toMatchObject({ id, startedAt });
  });

  it('are not made for a pod that the node does not take', async () => {
    const { spec, ...pod } = shellPod('elsewhere', node.image, SLEEP);
    node.write('elsewhere.json', { ...pod, spec: { ...spec, nodeSelector: { disk: 'ssd' } } });
    const status = await node.untilPhase('elsewhere', 'Failed');
    expect(status).toMatchObject({
      reason: 'NodeAffinity',
      message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    });
    expect(await node.sandboxes('elsewhere')).toBe(0);
  });

  it('are as they were after a restart of the agent, and its journal replays', async () => {
    await node.stop('SIGKILL');
    await node.start();
    await node.running('resized');
    const status = await node.untilPhase('elsewhere', 'Failed');
    expect(status.reason).toBe('NodeAffinity');
    expect(await node.sandboxes('elsewhere')).toBe(0);
    await node.stop();
    for (const incarnation of node.incarnations()) {
      const { code, stderr } = node.statelet('replay', node.journal, `--incarnation=${incarnation}`);
      expect({ code, stderr }).toMatchObject({ code: 0 });
    }
  });
});
