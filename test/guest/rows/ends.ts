/** Ends of the agent, of its package and of the machine: what keeps running, and what starts again. */
import { expect } from 'vitest';
import type { Guest } from '../support/guest.ts';
import { MAIN_PID, PODS, podsRun, processes, ROOT_DIR, type Row, rebooted, touchesNothing } from './row.ts';

interface Pod {
  readonly status: {
    readonly startTime: string;
    readonly containerStatuses: readonly { readonly restartCount: number }[];
  };
}

async function pods(guest: Guest): Promise<readonly Pod[]> {
  return (JSON.parse(await guest.run('statelet get pods -n default -o json')) as { items: readonly Pod[] }).items;
}

/** When each pod got its stop signal, in seconds after the machine's start. */
async function endsOfPods(guest: Guest): Promise<Record<string, number>> {
  const ends: Record<string, number> = {};
  for (const pod of PODS) ends[pod] = Number.parseFloat(await guest.run(`cat /var/ends/${pod}`));
  return ends;
}

/** A node as set up by kubeadm and its packages, without the kubeconfig: there is no API server. */
const KUBEADM = `
cat >/etc/systemd/system/kubelet.service <<'UNIT'
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10
UNIT
mkdir -p /etc/systemd/system/kubelet.service.d
cat >/etc/systemd/system/kubelet.service.d/10-kubeadm.conf <<'UNIT'
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
UNIT
cp /mnt/kubelet.json /var/lib/kubelet/config.yaml
echo 'KUBELET_KUBEADM_ARGS="--hostname-override=guest"' >/var/lib/kubelet/kubeadm-flags.env
cp /usr/share/statelet/20-statelet.conf /etc/systemd/system/kubelet.service.d/
`;

export const ENDS: readonly Row[] = [
  {
    what: '`systemctl restart`',
    seen: 'no container is restarted',
    see: (guest) => touchesNothing(guest, 'systemctl restart statelet'),
  },
  {
    what: '`kill -9`',
    seen: 'systemd starts the agent again; no container is restarted',
    see: (guest) => touchesNothing(guest, `kill -KILL $(${MAIN_PID})`),
  },
  {
    what: '`dpkg -i` over a running agent',
    seen: 'the agent is restarted, no container is',
    see: (guest) => touchesNothing(guest, 'dpkg -i /mnt/statelet_*.deb'),
  },
  {
    what: 'the unit of kubeadm with `20-statelet.conf`, and back to `statelet.service`',
    seen: 'the agent moves from unit to unit with the flags of each; no container is restarted',
    async see(guest) {
      const before = await processes(guest);
      await guest.run(KUBEADM);
      await guest.run('systemctl daemon-reload; systemctl start kubelet');
      const states = 'systemctl is-active kubelet statelet';
      await guest.until('the agent runs as kubelet.service', states, (output) => output === 'active\ninactive\n');
      await podsRun(guest);
      await guest.run('systemctl start statelet');
      await guest.until('the agent runs as statelet.service', states, (output) => output === 'inactive\nactive\n');
      await podsRun(guest);
      expect(await processes(guest)).toEqual(before);
    },
  },
  {
    what: 'age of static pods',
    seen: 'counts from the start of the pod, not of the agent',
    async see(guest) {
      const began = await guest.run(`date -d "$(systemctl show statelet -P ActiveEnterTimestamp)" +%s`);
      for (const { status } of await pods(guest))
        expect(Date.parse(status.startTime) / 1_000, JSON.stringify(status)).toBeLessThan(Number(began));
    },
  },
  {
    what: '`systemctl reboot`',
    seen: 'static pods run again, each container restarted once',
    async see(guest) {
      await rebooted(guest);
      await podsRun(guest);
      const restarts = (await pods(guest)).map(({ status }) => status.containerStatuses[0]!.restartCount);
      expect(restarts).toEqual(PODS.map(() => 1));
    },
  },
  {
    what: '`systemctl poweroff` with `shutdownGracePeriodByPodPriority`',
    seen: 'pods end group by group, the highest priority last, and each group gets its full time; after the boot they run again',
    async see(guest) {
      const inhibitors = 'systemd-inhibit --list --no-legend';
      await guest.until('the shutdown is delayed for the agent', inhibitors, (output) =>
        /kubelet.* delay/.test(output),
      );
      await guest.run('rm -f /var/ends/*');
      await guest.run('systemctl poweroff', true).catch(() => undefined);
      await guest.goesOff();
      await guest.boot();
      const ends = await endsOfPods(guest);
      expect(ends['guaranteed']).toBeGreaterThan(Math.max(ends['burstable']!, ends['besteffort']!));
      const log = await guest.run('journalctl -b -1 -u statelet -o cat');
      expect(log).toContain('Shutdown manager completed processing shutdown event');
      expect(log).not.toContain('Shutdown manager pod killing time out');
      await podsRun(guest);
    },
  },
  {
    what: '`dpkg -r`',
    seen: 'the agent is removed; containers, journal and configuration stay',
    async see(guest) {
      const before = await processes(guest);
      await guest.run('dpkg -r statelet');
      await guest.until('the agent is gone', 'systemctl is-active statelet', (output) => output.trim() === 'inactive');
      expect(await processes(guest)).toEqual(before);
      await guest.run(`ls ${ROOT_DIR}/journal/j-* /etc/default/statelet; ! ls /usr/bin/statelet`);
    },
  },
];
