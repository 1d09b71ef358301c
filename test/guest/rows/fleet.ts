/** A node of a cluster with thirty pods: ends of the agent, resizes, and a start without the API server. */
import { expect } from 'vitest';
import type { Guest } from '../support/guest.ts';
import {
  KUBEADM_NODE,
  podsRun,
  processes,
  type Row,
  rebooted,
  scopeOf,
  sliceOf,
  textOf,
  touchesNothing,
} from './row.ts';

const PODS = 30;
const MIB = 1024 * 1024;
const SLEEP = { command: ['sh', '-c', 'while :; do sleep 5; done'] };
const NAMES = Array.from({ length: PODS }, (_, index) => `pod-${String(index).padStart(2, '0')}`);

const memory = async (guest: Guest, groups: readonly string[]) => {
  const limits: string[] = [];
  for (const group of groups) limits.push(await textOf(guest, `${group}/memory.max`));
  return limits;
};
const isResized = ({ status }: { status?: { conditions?: readonly { type: string }[] } }): boolean =>
  status?.conditions?.some(({ type }) => type.startsWith('PodResize')) !== true;

const DROP_IN = '/etc/systemd/system/kubelet.service.d/20-statelet.conf';
const THREE = ['one', 'two', 'three'];

export const FLEET: readonly Row[] = [
  {
    what: 'a node of kubeadm with the Go kubelet: `20-statelet.conf`, and back',
    seen: 'the kubelet runs pods, Statelet replaces it, and the kubelet replaces Statelet; all processes of the pods stay the same',
    needs: 'kubelet',
    async see(guest, cluster) {
      const restart = 'systemctl daemon-reload && systemctl restart kubelet';
      try {
        await guest.run(KUBEADM_NODE);
        await cluster.untilAgent('kubelet');
        for (const name of THREE) await cluster.create(name, SLEEP);
        await cluster.allRun();
        const before = await processes(guest);
        await guest.run(`cp /usr/share/statelet/20-statelet.conf ${DROP_IN} && ${restart}`);
        await cluster.untilAgent('statelet');
        await cluster.allRun();
        expect(await processes(guest)).toEqual(before);
        await guest.run(`rm ${DROP_IN} && ${restart}`);
        await cluster.untilAgent('kubelet');
        await cluster.allRun();
        expect(await processes(guest)).toEqual(before);
      } finally {
        // The following rows need Statelet, even if this row fails.
        await guest.run('systemctl disable --now kubelet; systemctl enable --now statelet');
      }
      await cluster.untilAgent('statelet');
      for (const name of THREE) await cluster.delete(name);
    },
  },
  {
    what: 'thirty pods of the API server',
    seen: 'run and are ready',
    async see(_guest, cluster) {
      for (const name of NAMES) await cluster.create(name, SLEEP);
      await cluster.allRun();
    },
  },
  {
    what: '`kill -9`, `systemctl restart` and `dpkg -i` with thirty pods',
    seen: 'a new agent serves, and all sixty processes stay the same',
    async see(guest, cluster) {
      for (const script of [
        'kill -KILL $(systemctl show statelet -P MainPID)',
        'systemctl restart statelet',
        'dpkg -i /mnt/statelet_*.deb',
      ])
        await touchesNothing(guest, script, () => cluster.allRun());
      expect(await processes(guest)).toHaveLength(2 * PODS);
    },
  },
  {
    what: 'pressure (PSI) in `/metrics/cadvisor`',
    seen: '`container_pressure_*` of CPU, memory and I/O, waiting and stalled',
    async see(guest) {
      const metrics = await guest.run('curl -sS http://127.0.0.1:10255/metrics/cadvisor | grep ^container_pressure_');
      for (const resource of ['cpu', 'memory', 'io'])
        for (const how of ['waiting', 'stalled'])
          expect(metrics).toContain(`container_pressure_${resource}_${how}_seconds_total{container="app"`);
    },
  },
  {
    what: 'resize in place: CPU and memory, up and down',
    seen: 'pod and container have the new `cpu.max` and `memory.max`, also in systemd; the container is not replaced',
    async see(guest, cluster) {
      const resources = (cpu: string, bytes: string) => ({
        limits: { cpu, memory: bytes },
        requests: { cpu, memory: bytes },
      });
      await cluster.create('resized', { ...SLEEP, resources: resources('100m', '64Mi') });
      const before = await cluster.runs('resized');
      const [slice, scope] = [sliceOf(before), scopeOf(before)];
      for (const [cpu, mib] of [
        [200, 96],
        [50, 48],
      ] as const) {
        await cluster.resize('resized', resources(`${cpu}m`, `${mib}Mi`));
        const after = await cluster.untilPod('resized', `has ${cpu}m and ${mib}Mi`, (pod) => {
          const has = pod.status?.containerStatuses?.[0]?.resources?.limits;
          return has?.['cpu'] === `${cpu}m` && has['memory'] === `${mib}Mi` && isResized(pod);
        });
        expect(await memory(guest, [slice, scope])).toEqual([String(mib * MIB), String(mib * MIB)]);
        expect(await textOf(guest, `${scope}/cpu.max`)).toBe(`${cpu * 100} 100000`);
        await guest.run('systemctl daemon-reload');
        expect(await textOf(guest, `${slice}/cpu.max`)).toBe(`${cpu * 100} 100000`);
        expect(scopeOf(after)).toBe(scope);
      }
    },
  },
  {
    what: 'resize in place: `RestartContainer`, `Deferred`',
    seen: 'only that container restarts; a resize that does not fit is reported in the status, and nothing changes',
    async see(guest, cluster) {
      const policy = [{ resourceName: 'memory', restartPolicy: 'RestartContainer' }];
      await cluster.create('anew', { ...SLEEP, resources: { limits: { memory: '32Mi' } }, resizePolicy: policy });
      await cluster.runs('anew');
      await cluster.resize('anew', { limits: { memory: '48Mi' }, requests: { memory: '48Mi' } });
      const anew = await cluster.untilPod(
        'anew',
        'began anew',
        ({ status }) => status?.containerStatuses?.[0]?.restartCount === 1,
      );
      expect(await memory(guest, [sliceOf(anew)])).toEqual([String(48 * MIB)]);
      const says =
        (reason: string) => (pod: { status?: { conditions?: readonly { type: string; reason?: string }[] } }) =>
          pod.status?.conditions?.some((each) => each.type === 'PodResizePending' && each.reason === reason) === true;
      await cluster.create('big', { ...SLEEP, resources: { requests: { memory: '1500Mi' } } });
      await cluster.runs('big');
      await cluster.resize('resized', {
        limits: { cpu: '50m', memory: '1500Mi' },
        requests: { cpu: '50m', memory: '1500Mi' },
      });
      await cluster.untilPod('resized', 'waits', says('Deferred'));
      const tooMuch = { cpu: '50m', memory: '9Gi' };
      const asking = cluster.resize('resized', { limits: tooMuch, requests: tooMuch });
      // An API server of 1.36 itself rejects a resize that the node could never satisfy.
      if (cluster.isReal) await expect(asking).rejects.toThrow("node didn't have enough allocatable resources: memory");
      else await asking;
      const refused = await cluster.untilPod('resized', 'still waits', says('Deferred'));
      expect(await memory(guest, [scopeOf(refused)])).toEqual([String(48 * MIB)]);
      for (const name of ['big', 'anew', 'resized']) await cluster.delete(name);
    },
  },
  {
    what: '`systemctl reboot` with the API server away',
    seen: 'static pods and every remembered pod of the API server run again; when it is back, their restarts are reported to it',
    async see(guest, cluster) {
      await guest.run('cp /mnt/pods/* /etc/kubernetes/manifests/');
      await podsRun(guest);
      await cluster.leave();
      await rebooted(guest);
      await podsRun(guest);
      const running = (table: string) => NAMES.every((name) => new RegExp(`^${name} +1/1 +Running`, 'm').test(table));
      await guest.until('every remembered pod runs', 'statelet get pods -n default', running);
      await cluster.comeBack();
      for (const name of NAMES)
        await cluster.untilPod(
          name,
          'has been restarted',
          // Two restarts, if the agent outlived the container for a moment.
          ({ status }) => (status?.containerStatuses?.[0]?.restartCount ?? 0) > 0,
        );
      await cluster.allRun();
    },
  },
];
