/** A row of the table in `docs/systemd.md`: the check in the guest, and its expected result. */

import { expect } from 'vitest';
import type { Pod } from '../../../src/machines/model/api/pod.ts';
import type { GuestCluster } from '../support/cluster.ts';
import { type Guest, NODE } from '../support/guest.ts';

export interface Row {
  readonly what: string;
  /** The text on the page. */
  readonly seen: string;
  /** The Go kubelet that `STATELET_GO_KUBELET` names: without it, the row is skipped. */
  readonly needs?: 'kubelet';
  /**
   * Rejects if the check fails. The rows of a suite run one after the other in one guest: each leaves every pod
   * running. `cluster` exists if the suite's node belongs to one.
   */
  readonly see: (guest: Guest, cluster: GuestCluster) => Promise<void>;
}

export const PODS = ['besteffort', 'burstable', 'guaranteed'] as const;
export const ROOT_DIR = '/var/lib/kubelet';
export const SLICES = '/sys/fs/cgroup/kubepods.slice';

/** The name of a mirror pod: that of the static pod, and of its node. */
export const onNode = (pod: string): string => `${pod}-${NODE}`;

/** Waits until every pod exists and is ready. */
export async function podsRun(guest: Guest): Promise<void> {
  const isReady = (table: string) => PODS.every((pod) => new RegExp(`${onNode(pod)} +1/1 +Running`).test(table));
  await guest.until('every pod is ready', 'statelet get pods -n default', isReady);
}

/**
 * The processes of all containers and sandboxes, according to the runtime. It reports none whose shim has not answered
 * within two seconds, as happens if the emulator gets no CPU: then the call is repeated.
 */
export async function processes(guest: Guest): Promise<readonly string[]> {
  const isKnown = (table: string) => table.includes('RUNNING') && !table.includes('UNKNOWN');
  const tasks = await guest.until('the runtime knows each task', 'ctr -n k8s.io tasks ls', isKnown);
  const isRunning = (line: string) => line.includes('RUNNING');
  return tasks.split('\n').filter(isRunning).toSorted();
}

/** systemd's properties of a unit, by name. */
export async function properties(guest: Guest, unit: string, names: readonly string[]) {
  const shown = await guest.run(`systemctl show ${unit} --property=${names.join(',')}`);
  return Object.fromEntries(
    shown
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/, 2)),
  );
}

/** The text of a file. */
export async function textOf(guest: Guest, file: string): Promise<string> {
  return (await guest.run(`cat ${file}`)).trim();
}

/** The folder of a pod's slice. */
export function sliceOf({ metadata, status }: Pod): string {
  const level = { Guaranteed: '', Burstable: '-burstable', BestEffort: '-besteffort' }[status!.qosClass!]!;
  const parent = level === '' ? SLICES : `${SLICES}/kubepods${level}.slice`;
  return `${parent}/kubepods${level}-pod${metadata.uid.replaceAll('-', '_')}.slice`;
}

/** The folder of the group of the pod's only container. */
export function scopeOf(pod: Pod): string {
  const id = pod.status!.containerStatuses![0]!.containerID!.replace('containerd://', '');
  return `${sliceOf(pod)}/cri-containerd-${id}.scope`;
}

/** Commands for an emulated machine on a busy one, where a second may take a minute. */
export const LONGER_WATCHDOG = `mkdir -p /etc/systemd/system/statelet.service.d
printf '[Service]\\nWatchdogSec=600\\n' >/etc/systemd/system/statelet.service.d/emulated.conf
systemctl daemon-reload`;

export const MAIN_PID = 'systemctl show statelet -P MainPID';

/** Affects the agent: afterwards a new one serves, and every process of a container is unchanged. */
export async function touchesNothing(
  guest: Guest,
  script: string,
  run: () => Promise<void> = () => podsRun(guest),
): Promise<void> {
  const [before, pid] = [await processes(guest), await guest.run(MAIN_PID)];
  await guest.run(script);
  const state = `systemctl show statelet -P ActiveState; ${MAIN_PID}`;
  await guest.until(
    'another agent is ready',
    state,
    (output) => output.startsWith('active\n') && !output.endsWith(`\n${pid}`),
  );
  await run();
  expect(await processes(guest)).toEqual(before);
}

/** Reboots the machine regularly. */
export async function rebooted(guest: Guest): Promise<void> {
  const bootId = 'cat /proc/sys/kernel/random/boot_id';
  const before = await guest.run(bootId);
  await guest.run('systemctl reboot', true).catch(() => undefined);
  await guest.until('the machine starts anew', bootId, (id) => /^[0-9a-f-]{36}/.test(id) && id !== before);
  await guest.comesUp();
}

/** A node as set up by `kubeadm join`: the unit and drop-in of Kubernetes' packages, and kubeadm's files. */
export const KUBEADM_NODE = `
set -e
systemctl disable --now statelet
cp /mnt/kubelet /usr/bin/kubelet
cat >/etc/systemd/system/kubelet.service <<'UNIT'
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
UNIT
mkdir -p /etc/systemd/system/kubelet.service.d /etc/kubernetes/manifests
cat >/etc/systemd/system/kubelet.service.d/10-kubeadm.conf <<'UNIT'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
UNIT
cp /etc/kubernetes/kubelet.yaml /var/lib/kubelet/config.yaml
echo 'KUBELET_KUBEADM_ARGS="--hostname-override=guest"' >/var/lib/kubelet/kubeadm-flags.env
systemctl daemon-reload
systemctl enable --now kubelet`;
