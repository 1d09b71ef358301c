/** The service in systemd, and an operator's commands for it. */
import { expect } from 'vitest';
import { LONGER_WATCHDOG, onNode, PODS, podsRun, processes, properties, type Row } from './row.ts';

const UNIT = 'statelet.service';

export const SERVICE: readonly Row[] = [
  {
    what: '`Type=notify`, `WatchdogSec`, `Delegate`',
    seen: 'the service is active after `READY=1`; systemd watches it each 60 s and leaves its groups to it',
    async see(guest) {
      const names = ['Type', 'ActiveState', 'WatchdogUSec', 'Delegate', 'KillMode'];
      expect(await properties(guest, UNIT, names)).toEqual({
        Type: 'notify',
        ActiveState: 'active',
        WatchdogUSec: '1min',
        Delegate: 'yes',
        KillMode: 'process',
      });
    },
  },
  {
    what: 'static pods of each QoS class',
    seen: 'Running and ready, with images and a pod network of containerd (`SystemdCgroup = true`)',
    see: podsRun,
  },
  {
    what: '`statelet logs`, `exec`, `describe`',
    seen: 'answer without an API server',
    async see(guest) {
      const pod = onNode('burstable');
      expect(await guest.run(`statelet logs ${pod}`)).toBe('here\n');
      expect(await guest.run(`statelet exec ${pod} -- echo through`)).toBe('through\n');
      expect(await guest.run(`statelet describe pod ${pod}`)).toContain('Status:');
    },
  },
  {
    what: 'journald',
    seen: "has the log, in the kubelet's format",
    async see(guest) {
      const log = await guest.run(`journalctl -u ${UNIT} -o cat`);
      expect(log).toMatch(/^I\d{4} \d\d:\d\d:\d\d\.\d{6} .*"Started kubelet"$/m);
    },
  },
  {
    what: 'pressure (PSI)',
    seen: 'of the node, of each pod and of each container in `/stats/summary`: of CPU, memory and I/O',
    async see(guest) {
      const summary = JSON.parse(await guest.run('curl -sS http://127.0.0.1:10255/stats/summary')) as Summary;
      const counted = summary.pods.filter(({ podRef }) => podRef.namespace === 'default');
      expect(counted).toHaveLength(PODS.length);
      for (const part of [summary.node, ...counted, ...counted.flatMap(({ containers }) => containers)])
        for (const resource of ['cpu', 'memory', 'io'] as const)
          expect(part[resource].psi.some, JSON.stringify(part)).toHaveProperty('avg10');
      expect(counted.some(({ containers }) => containers[0]!.cpu.psi.some.total > 0)).toBe(true);
    },
  },
  {
    what: 'a daemon that hangs',
    seen: 'is ended by the watchdog and restarted; no container is restarted',
    async see(guest) {
      const restarts = `systemctl show ${UNIT} -P NRestarts`;
      const before = Number(await guest.run(restarts));
      const containers = await processes(guest);
      await guest.run(`kill -STOP $(systemctl show ${UNIT} -P MainPID)`);
      await guest.until('the watchdog ends it', restarts, (output) => Number(output) > before);
      await guest.until('it is ready again', `systemctl is-active ${UNIT}`, (output) => output.trim() === 'active');
      expect(await guest.run(`journalctl -u ${UNIT} -o cat`)).toContain('Watchdog timeout');
      await guest.run(LONGER_WATCHDOG);
      await podsRun(guest);
      expect(await processes(guest)).toEqual(containers);
    },
  },
];

interface Psi {
  readonly psi: { readonly some: { readonly total: number } };
}
interface Counted {
  readonly cpu: Psi;
  readonly memory: Psi;
  readonly io: Psi;
}
interface Summary {
  readonly node: Counted;
  readonly pods: readonly (Counted & {
    readonly podRef: { readonly namespace: string };
    readonly containers: readonly Counted[];
  })[];
}
