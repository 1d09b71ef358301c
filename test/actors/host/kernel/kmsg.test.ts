import { execFileSync } from 'node:child_process';
import { appendFileSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hostPorts } from '../../../../src/actors/host/index.ts';
import { OomParser, parseRecord } from '../../../../src/actors/host/kernel/kmsg.ts';
import { openStream, temporaryFolder } from '../../../support/host-ports.ts';

/** As Linux 6 writes them; the middle of an episode is a table of processes. */
const MACHINE_OOM = [
  '4,100,5000,-;stress invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0',
  '4,101,5001,-;CPU: 0 PID: 4242 Comm: stress Not tainted 6.1.0 #1',
  ' SUBSYSTEM=memory',
  '6,102,5002,-;[   4242]     0  4242   262211   255888  2105344        0             0 stress',
  '6,103,5003,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=stress,pid=4242,uid=0',
  '3,104,5004,-;Out of memory: Killed process 4242 (stress) total-vm:1048844kB, anon-rss:1023552kB',
];
const CONTAINER_OOM = MACHINE_OOM.map((line) =>
  line
    .replace(/^(\d),(\d+)/, (_, priority: string, sequence: string) => `${priority},${Number(sequence) + 100}`)
    .replace('CONSTRAINT_NONE', 'CONSTRAINT_MEMCG')
    .replace('global_oom,task_memcg=/user.slice', 'oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c')
    .replace('Out of memory:', 'Memory cgroup out of memory:'),
);
const LEGACY_OOM = [
  '4,300,1,-;ruby invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0',
  '4,301,1,-;Task in /mem2 killed as a result of limit of /mem3',
  '4,302,1,-;Killed process 19667 (evilprogram2) total-vm:1460016kB, anon-rss:1414008kB, file-rss:4kB',
];

const killsOf = (lines: readonly string[]) => {
  const parser = new OomParser();
  return lines.flatMap((line) => {
    const record = parseRecord(line);
    return (record && parser.next(record.text)) ?? [];
  });
};

describe('records of the kernel', () => {
  it('a machine out of memory is an episode of the root cgroup', () => {
    expect(killsOf(MACHINE_OOM)).toEqual([
      {
        processName: 'stress',
        pid: 4242,
        container: '/user.slice',
        victimContainer: '/',
        constraint: 'CONSTRAINT_NONE',
      },
    ]);
  });

  it('a container at its limit is an episode of its cgroup', () => {
    expect(killsOf(CONTAINER_OOM)).toMatchObject([
      { victimContainer: '/kubepods/pod1', container: '/kubepods/pod1/c', constraint: 'CONSTRAINT_MEMCG' },
    ]);
  });

  it('kernels before 5.0 say it in other words', () => {
    expect(killsOf(LEGACY_OOM)).toEqual([
      { processName: 'evilprogram2', pid: 19_667, container: '/mem2', victimContainer: '/mem3', constraint: '' },
    ]);
  });

  it('a line that only looks like the end of an episode is none', () => {
    expect(killsOf(MACHINE_OOM.slice(3))).toEqual([]);
    expect(parseRecord(' SUBSYSTEM=memory')).toBeNull();
    expect(parseRecord('not;a record')).toBeNull();
    expect(parseRecord('6,17229,11678410779,-;stl0: port 4(veth) entered; blocking')).toEqual({
      sequence: 17_229,
      text: 'stl0: port 4(veth) entered; blocking',
    });
  });
});

async function node(log: readonly string[]) {
  const folder = await temporaryFolder();
  const path = join(folder, 'kmsg');
  writeFileSync(path, `${log.join('\n')}\n`);
  const seenFile = join(folder, 'oom-seen.json');
  return { path, seenFile, watch: () => openStream(hostPorts()['host.watchOom'], { path, seenFile }) };
}

const isKill = ({ type }: { type: string }) => type === 'oom.killed';

describe('following the log', () => {
  it('speaks of kills only, those before the start and those after it', async () => {
    const { path, watch } = await node(['6,1,1,-;eth0: link up', ...MACHINE_OOM]);
    const stream = watch();
    expect(await stream.until(isKill)).toMatchObject({ pid: 4242, victimContainer: '/' });
    appendFileSync(path, `${CONTAINER_OOM.join('\n')}\n6,900,1,-;something else\n`);
    await stream.until((item) => isKill(item) && 'victimContainer' in item && item.victimContainer !== '/');
    expect(stream.items.map(({ type }) => type)).toEqual(['oom.watching', 'oom.killed', 'oom.killed']);
  });

  it('after a restart of the agent earlier reports are not repeated', async () => {
    const { path, watch } = await node(MACHINE_OOM);
    const first = watch();
    await first.until(isKill);
    await first.close();
    appendFileSync(path, `${CONTAINER_OOM.join('\n')}\n`);
    const second = watch();
    expect(await second.until(isKill)).toMatchObject({ victimContainer: '/kubepods/pod1' });
    expect(second.items).toHaveLength(2);
  });

  it('reads a pipe whose writer comes and goes, also in the middle of a line', async () => {
    const folder = await temporaryFolder();
    const path = join(folder, 'kmsg');
    execFileSync('mkfifo', [path]);
    const stream = openStream(hostPorts()['host.watchOom'], { path, seenFile: join(folder, 'seen') });
    await stream.until(({ type }) => type === 'oom.watching');
    const text = `${MACHINE_OOM.join('\n')}\n`;
    const writer = openSync(path, 'w');
    writeSync(writer, text.slice(0, 333));
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    writeSync(writer, text.slice(333));
    expect(await stream.until(isKill)).toMatchObject({ processName: 'stress' });
  });

  it('a log that cannot be opened is refused in the words of the kubelet', async () => {
    const folder = await temporaryFolder();
    const stream = openStream(hostPorts()['host.watchOom'], { path: join(folder, 'none'), seenFile: '' });
    await expect(stream.ended).rejects.toThrow(`open ${join(folder, 'none')}: no such file or directory`);
  });
});
