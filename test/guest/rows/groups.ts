/** The control groups of node, QoS levels, pods and containers, in systemd and in the kernel. */
import { expect } from 'vitest';
import type { Guest } from '../support/guest.ts';
import { onNode, properties, type Row, SLICES } from './row.ts';

const MIB = 1024 * 1024;
const BURSTABLE = `${SLICES}/kubepods-burstable.slice`;

/** The only folder of the guest that matches a pattern of the shell. */
const folder = async (guest: Guest, pattern: string): Promise<string> => (await guest.run(`ls -d ${pattern}`)).trim();

/** The slice of a pod: below its level, or for a guaranteed pod beside the levels. */
const podSlice = (guest: Guest, level: string) => folder(guest, `${level}/*-pod*.slice`);

async function value(guest: Guest, group: string, file: string): Promise<string> {
  return (await guest.run(`cat ${group}/${file}`)).trim();
}

/** The group of the container, not that of the sandbox: its command names the volume of the manifest. */
async function container(guest: Guest, slice: string): Promise<string> {
  const commands = 'sed "s,.*,/proc/&/cmdline," $group/cgroup.procs';
  const found = `for group in ${slice}/*.scope; do grep -qs /ends/ $(${commands}) && echo $group; done; true`;
  return (await guest.run(found)).trim();
}

/**
 * The runtime detects the kill by a file of a group that disappears with its last process: in emulation it misses some
 * kills, and then reports the reason Error.
 */
const TRIES = 6;

/** Runs the pod until it has failed and is removed; returns the reason of its status. */
async function endOfHungry(guest: Guest): Promise<string> {
  const slices = `ls -d ${SLICES}/*-pod*.slice ${SLICES}/*/*-pod*.slice`;
  const before = await guest.run(slices);
  await guest.run('cp /mnt/hungry.yaml /etc/kubernetes/manifests/');
  const json = `statelet get pod ${onNode('hungry')} -o json`;
  const ended = await guest.until('the pod fails', json, (output) => output.includes('"phase": "Failed"'));
  const { status } = JSON.parse(ended) as Failed;
  const { reason, exitCode } = status.containerStatuses[0]!.state.terminated;
  expect(exitCode).toBe(137);
  await guest.run('rm /etc/kubernetes/manifests/hungry.yaml');
  await guest.until('the pod is gone', json, (output) => output.includes('not found'));
  await guest.until('its slice is gone', slices, (output) => output === before);
  return reason;
}

interface Failed {
  readonly status: {
    readonly containerStatuses: readonly {
      readonly state: { readonly terminated: { readonly reason: string; readonly exitCode: number } };
    }[];
  };
}

export const GROUPS: readonly Row[] = [
  {
    what: '`kubepods.slice`, `kubepods-burstable.slice`, `kubepods-besteffort.slice`',
    seen: 'made by the agent (`Transient=yes`) with accounting, before any slice of a pod',
    async see(guest) {
      for (const level of ['', '-burstable', '-besteffort'])
        expect(
          await properties(guest, `kubepods${level}.slice`, ['Transient', 'MemoryAccounting', 'TasksAccounting']),
        ).toEqual({ Transient: 'yes', MemoryAccounting: 'yes', TasksAccounting: 'yes' });
    },
  },
  {
    what: 'slices of pods',
    seen: 'below their level, transient; those of guaranteed pods below `kubepods.slice`',
    async see(guest) {
      for (const level of [SLICES, BURSTABLE, `${SLICES}/kubepods-besteffort.slice`]) {
        const unit = (await podSlice(guest, level)).split('/').at(-1)!;
        expect(await properties(guest, unit, ['Transient', 'ActiveState'])).toEqual({
          Transient: 'yes',
          ActiveState: 'active',
        });
      }
    },
  },
  {
    what: '`cpu.weight`, `cpu.max`',
    seen: 'from the requests and limits of the pod, in systemd and in the kernel alike',
    async see(guest) {
      const slice = await podSlice(guest, SLICES);
      const weight = await value(guest, slice, 'cpu.weight');
      expect(await properties(guest, slice.split('/').at(-1)!, ['CPUWeight', 'CPUQuotaPerSecUSec'])).toEqual({
        CPUWeight: weight,
        CPUQuotaPerSecUSec: '200ms',
      });
      expect(await value(guest, slice, 'cpu.max')).toBe('20000 100000');
      const besteffort = await value(guest, `${SLICES}/kubepods-besteffort.slice`, 'cpu.weight');
      expect(besteffort).toBe('1');
      expect(Number(weight)).toBeGreaterThan(Number(besteffort));
    },
  },
  {
    what: '`memory.min` and `memory.low` (`MemoryQoS`, `TieredReservation`)',
    seen: 'of `kubepods.slice`, its levels, pods and containers; unchanged after `systemctl daemon-reload`',
    async see(guest) {
      const [guaranteed, burstable] = [await podSlice(guest, SLICES), await podSlice(guest, BURSTABLE)];
      const reserved = async () => ({
        pods: await value(guest, SLICES, 'memory.min'),
        guaranteed: await value(guest, guaranteed, 'memory.min'),
        ofContainer: await value(guest, await container(guest, guaranteed), 'memory.min'),
        burstable: await value(guest, burstable, 'memory.low'),
        levelLow: await value(guest, BURSTABLE, 'memory.low'),
      });
      const before = await reserved();
      expect(before).toMatchObject({
        guaranteed: String(64 * MIB),
        ofContainer: String(64 * MIB),
        burstable: String(32 * MIB),
      });
      await guest.run('systemctl daemon-reload');
      expect(await reserved()).toEqual(before);
    },
  },
  {
    what: '`memory.max`, `memory.oom.group`, `pids.max`',
    seen: 'the limits of the manifest; containers end as a whole; `podPidsLimit` on the pod',
    async see(guest) {
      const slice = await podSlice(guest, BURSTABLE);
      const group = await container(guest, slice);
      expect(await value(guest, slice, 'memory.max')).toBe(String(64 * MIB));
      expect(await value(guest, group, 'memory.max')).toBe(String(64 * MIB));
      expect(await value(guest, group, 'memory.oom.group')).toBe('1');
      expect(await value(guest, slice, 'pids.max')).toBe('200');
    },
  },
  {
    what: 'a container that takes more memory than it may',
    seen: '`OOMKilled`, and the pod `Failed`; its slice goes with it',
    async see(guest) {
      const reasons: string[] = [];
      while (reasons.at(-1) !== 'OOMKilled' && reasons.length < TRIES) reasons.push(await endOfHungry(guest));
      expect(reasons.at(-1), reasons.join()).toBe('OOMKilled');
    },
  },
];
