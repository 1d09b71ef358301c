/** A row of the table in `docs/systemd.md`: what was looked at in the guest, and what must be seen there. */
import type { Guest } from '../support/guest.ts';

export interface Row {
  readonly what: string;
  /** As the page says it. */
  readonly seen: string;
  /** Rejects when it is not so. Rows follow one another in one guest: each leaves every pod running. */
  readonly see: (guest: Guest) => Promise<void>;
}

export const PODS = ['besteffort', 'burstable', 'guaranteed'] as const;
export const ROOT_DIR = '/var/lib/kubelet';
export const SLICES = '/sys/fs/cgroup/kubepods.slice';

/** As the names of mirror pods: a static pod's name, and its node's. */
export const onNode = (pod: string): string => `${pod}-guest`;

/** Every pod is there and ready. */
export async function podsRun(guest: Guest): Promise<void> {
  const isReady = (table: string) => PODS.every((pod) => new RegExp(`${onNode(pod)} +1/1 +Running`).test(table));
  await guest.until('every pod is ready', 'statelet get pods -n default', isReady);
}

/** The processes of all containers and sandboxes, by what the runtime says. */
export async function processes(guest: Guest): Promise<readonly string[]> {
  const tasks = await guest.run('ctr -n k8s.io tasks ls | grep RUNNING');
  return tasks.trim().split('\n').toSorted();
}

/** What systemd has of a unit, by name. */
export async function properties(guest: Guest, unit: string, names: readonly string[]) {
  const shown = await guest.run(`systemctl show ${unit} --property=${names.join(',')}`);
  return Object.fromEntries(
    shown
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/, 2)),
  );
}
