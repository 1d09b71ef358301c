/**
 * Pods that request too much, or access to the node (bad inputs 29 to 33, CVE-2019-11245, CVE-2023-2431), and pods
 * without a manifest (36), on real runtimes: each is rejected or contained, its neighbours run, and the journal
 * replays.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const CALL = { timeoutMs: patient(20_000) };
const TIMEOUT_MS = patient(240_000);
/** Two rounds of housekeeping, in which foreign pods must stay unchanged. */
const WHILE_MS = 5_000;
const MEGABYTE = 1_048_576;
const TEN_YEARS = 315_360_000;

const kubernetes = (uid: string, name: string) => ({
  'io.kubernetes.pod.uid': uid,
  'io.kubernetes.pod.name': name,
  'io.kubernetes.pod.namespace': 'default',
});

describe.each(runtimes)('bad pods on $name', (choice) => {
  const isContainerd = choice.name === 'containerd';
  const { skip } = requirement('containerd', isContainerd ? choice.unavailable : null);
  let runtime: RuntimeInUse;
  let node: ObservedNode;

  beforeAll(async () => {
    if (skip) return;
    runtime = await choice.start();
    node = new ObservedNode(runtime);
    await node.start();
    node.write('neighbour.json', shellPod('neighbour', node.image, SLEEP));
    await node.running('neighbour');
  });
  afterAll(async () => {
    if (skip) return;
    for (const name of readdirSync(node.manifests)) node.remove(name);
    await node.close();
    await runtime.close();
  });

  function write(name: string, script: string, container: object, spec: object = {}): void {
    const pod = shellPod(name, node.image, script, spec);
    const [only] = pod.spec.containers;
    node.write(`${name}.json`, { ...pod, spec: { ...pod.spec, containers: [{ ...only, ...container }] } });
  }
  const waits = (pod: string) =>
    eventually(`${pod} waits`, async () => {
      const waiting = (await node.status(pod))?.containerStatuses?.[0]?.state?.waiting;
      return waiting?.message ? waiting : null;
    });
  const ended = (pod: string) =>
    eventually(`${pod} has ended`, async () => {
      const container = (await node.status(pod))?.containerStatuses?.[0];
      return container?.state?.terminated ?? container?.lastState?.terminated;
    });

  it.skipIf(skip)('33 more arguments than the kernel takes end that container alone', async () => {
    const args = Array.from({ length: 11 }, (_, at) => String(at).repeat(100_000));
    write('wordy', 'true', { args }, { restartPolicy: 'Never' });
    write('wordier', 'true', { args: ['x'.repeat(MEGABYTE)] }, { restartPolicy: 'Never' });
    // The status of such a pod exceeds the page of an actor, so this uses its log line.
    const isOver = (pod: string) => new RegExp(`Pod status.*default/${pod}-node1.*(Failed|Succeeded)`).test(node.log);
    await eventually('both are over', () => isOver('wordy') && isOver('wordier'));
    const [instance] = await node.instances('wordier');
    expect([undefined, 'CONTAINER_EXITED']).toContain(instance?.state);
    expect(instance?.exitCode).not.toBe(0);
  });

  it.skipIf(skip)(
    '29 a grace of ten years ends when the container does, and a grace of zero is one second',
    async () => {
      write('patient', SLEEP, {}, { terminationGracePeriodSeconds: TEN_YEARS });
      write('hasty', "trap '' TERM; while :; do sleep 1; done", {}, { terminationGracePeriodSeconds: 0 });
      await node.running('patient');
      await node.running('hasty');
      node.remove('patient.json');
      node.remove('hasty.json');
      await node.gone('patient');
      await node.gone('hasty');
    },
  );

  it.skipIf(skip)(
    'an image as a volume is mounted by the runtime alone: one that cannot keeps the container back',
    async () => {
      const { runtime_version: version } = await node.client.call('Version', {}, CALL);
      write(
        'album',
        `test -x /data/bin/busybox && ! touch /data/x && echo mounted; ${SLEEP}`,
        { volumeMounts: [{ name: 'data', mountPath: '/data' }] },
        { volumes: [{ name: 'data', image: { reference: node.image, pullPolicy: 'IfNotPresent' } }] },
      );
      // The embedded runtime mounts nothing; containerd mounts images from 2.1 on.
      const isOld = isContainerd && version.startsWith('1.');
      if (!isOld) await node.running('album');
      const refusal = { reason: 'CreateContainerError', message: 'failed to generate spec' };
      const { reason, message = '' } = isOld ? await waits('album') : refusal;
      expect({ reason, message: message.includes(refusal.message) }).toEqual({ reason: refusal.reason, message: true });
      if (isContainerd && !isOld)
        await eventually('the image is there', () => node.containerLog('album', 'c').includes('mounted'));
      expect(node.log).not.toMatch(/"album".*crashed/i);
    },
  );

  it.skipIf(skip)('30 last words of a gigabyte are cut, and a device is no place for them', async () => {
    const script = 'printf %05000d 7 > /dev/termination-log; truncate -s 1G /dev/termination-log; exit 3';
    write('talker', script, { terminationMessagePath: '/dev/termination-log' }, { restartPolicy: 'Never' });
    const { message = '' } = await ended('talker');
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(4_096);
    write('zero', 'exit 3', { terminationMessagePath: '/dev/zero' }, { restartPolicy: 'Never' });
    await eventually('it is over', async () => {
      const status = await node.status('zero');
      return status?.phase === 'Failed' || status?.containerStatuses?.[0]?.state?.waiting?.message;
    });
  });

  it.skipIf(skip || !isContainerd)('a seccomp profile that is missing, or a folder, lets nothing run', async () => {
    mkdirSync(join(node.rootDir, 'seccomp/folder'), { recursive: true });
    writeFileSync(join(node.rootDir, 'seccomp/nonsense.json'), 'not json');
    for (const [name, profile] of [
      ['missing', 'nosuch.json'],
      ['folder', 'folder'],
      ['nonsense', 'nonsense.json'],
    ]) {
      const seccompProfile = { type: 'Localhost', localhostProfile: profile };
      write(`seccomp-${name}`, SLEEP, { securityContext: { seccompProfile } });
      const { reason } = await waits(`seccomp-${name}`);
      expect(['CreateContainerError', 'RunContainerError']).toContain(reason);
    }
    expect(node.containerLog('seccomp-missing', 'c')).toBe('');
  });

  it.skipIf(skip)(
    'CVE-2019-11245: a pod that must not be root is not, with the image there and after a restart',
    async () => {
      write('rootless', SLEEP, { securityContext: { runAsNonRoot: true } });
      const text = /container has runAsNonRoot and image will run as root \(pod: ".+", container: c\)/;
      expect((await waits('rootless')).message).toMatch(text);
      await node.stop('SIGKILL');
      await node.start();
      expect((await waits('rootless')).message).toMatch(text);
      expect(await node.instances('rootless')).toEqual([]);
    },
  );

  /** Pods in the runtime that no manifest names. */
  const make = async (name: string, labels: Readonly<Record<string, string>>): Promise<string> => {
    const metadata = { name, uid: labels['io.kubernetes.pod.uid'] ?? name, namespace: 'default', attempt: 0 };
    const options = { network: 'NODE', pid: 'CONTAINER', ipc: 'NODE' } as const;
    const linux = { cgroup_parent: node.cgroupRoot, security_context: { namespace_options: options } };
    const config = { metadata, labels, annotations: {}, log_directory: node.file('foreign'), linux };
    const { pod_sandbox_id: id } = await node.client.call('RunPodSandbox', { config }, CALL);
    return id;
  };
  const present = async () => {
    const { items } = await node.client.call('ListPodSandbox', {}, CALL);
    return new Map(items.map(({ id, state }) => [id, state]));
  };

  it.skipIf(skip)(
    '36 what another wrote into the runtime stays, what an agent left ends, and a uid is no path',
    async () => {
      const before = node.log.length;
      const kept = join(node.directory, 'etc/kept');
      mkdirSync(join(node.directory, 'etc'));
      writeFileSync(kept, 'of somebody else');
      const foreign = [await make('bare', {}), await make('labelled', { app: 'somebody-else' })];
      const left = await make('left', kubernetes('0f1e2d3c-0000-4000-8000-000000000001', 'left'));
      const evil = await make('evil', kubernetes('../../etc', 'evil'));
      await eventually('what was left has ended', async () => !(await present()).has(left), TIMEOUT_MS);
      await new Promise((resolve) => setTimeout(resolve, WHILE_MS));
      const states = await present();
      expect(foreign.map((id) => states.get(id))).toEqual(['SANDBOX_READY', 'SANDBOX_READY']);
      expect(existsSync(kept), 'a file that a uid leads to').toBe(true);
      expect(await node.healthz()).toBe(true);
      expect(node.log.slice(before)).not.toMatch(/crashed/i);
      expect(await node.instances('neighbour')).toMatchObject([{ state: 'CONTAINER_RUNNING', attempt: 0 }]);
      for (const id of [...foreign, evil]) {
        await node.client.call('StopPodSandbox', { pod_sandbox_id: id }, CALL);
        await node.client.call('RemovePodSandbox', { pod_sandbox_id: id }, CALL);
      }
    },
    TIMEOUT_MS,
  );

  it.skipIf(skip)('leave the neighbour alone, and a journal that verifies and replays', async () => {
    const neighbour = await node.running('neighbour');
    expect(neighbour.attempt).toBe(0);
    expect(await node.instances('neighbour')).toHaveLength(1);
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
  });
});
