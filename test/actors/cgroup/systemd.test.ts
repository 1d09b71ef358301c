/** The driver `systemd`: its requests to a manager over a real D-Bus socket, and their results. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { cpuWeight } from '../../../src/actors/cgroup/hierarchies.ts';
import { cgroupPorts } from '../../../src/actors/cgroup/index.ts';
import { systemdManager } from '../../../src/actors/cgroup/systemd.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';
import { BUS_KINDS, FakeSystemd, startBus, startMuteBus } from '../../support/systemd.ts';

const driver = 'systemd' as const;
const POD = '/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice';
const UNIT = 'kubepods-burstable-pod1_2.slice';
const RESOURCES = { cpuShares: '1024', cpuPeriodUs: '100000', cpuQuotaUs: '15000' };
const INFINITY = 2n ** 64n - 1n;

async function machine(kind: (typeof BUS_KINDS)[number]) {
  const root = await temporaryFolder();
  const tree = join(root, 'sys/fs/cgroup');
  mkdirSync(join(root, 'proc/self'), { recursive: true });
  mkdirSync(join(tree, POD), { recursive: true });
  writeFileSync(join(root, 'proc/self/mountinfo'), '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n');
  for (const file of ['cpu.weight', 'cpu.max', 'memory.max', 'pids.max']) writeFileSync(join(tree, POD, file), 'max');
  const systemd = new FakeSystemd(tree);
  const address = await startBus(kind, root);
  await systemd.serve(address);
  const ports = cgroupPorts({ root, systemd: systemdManager(cpuWeight, address) });
  onTestFinished(() => ports.close());
  return { systemd, ports, tree, address };
}

/** The library throws from a timer if it greets the bus itself: this test also fails for such an uncaught exception. */
it('a bus that does not answer is a failure of the call, which can be tried again', async () => {
  const address = await startMuteBus(await temporaryFolder());
  const manager = systemdManager(cpuWeight, address, 100);
  onTestFinished(() => manager.close());
  for (let attempt = 0; attempt < 2; attempt += 1)
    await expect(manager.set(POD, RESOURCES, 2)).rejects.toMatchObject({
      message: expect.stringMatching(/^cannot speak to systemd over unix:path=.*: No reply within 100ms to .*Hello/),
      retriable: true,
    });
});

describe.each(BUS_KINDS)('a slice, over %s', (kind) => {
  it('has memory protection as properties, which systemd would otherwise set back', async () => {
    const { systemd, address } = await machine(kind);
    const manager = systemdManager(cpuWeight, address);
    onTestFinished(() => manager.close());
    const unified = { 'memory.min': '4096', 'memory.low': '8192', 'memory.high': 'max', 'memory.oom.group': '1' };
    await manager.start(POD, { ...RESOURCES, unified }, 2);
    const infinity = 2n ** 64n - 1n;
    expect(systemd.units.get(UNIT)).toMatchObject({ MemoryMin: 4096n, MemoryLow: 8192n, MemoryHigh: infinity });
  });

  it('is started as a transient unit with the limits in systemd words, and its job is waited for', async () => {
    const { systemd, ports } = await machine(kind);
    const resources = { ...RESOURCES, memoryBytes: '50331648', pids: '100' };
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources });
    expect(systemd.calls).toEqual([`StartTransientUnit ${UNIT} replace`, `SetUnitProperties ${UNIT} true`]);
    expect(systemd.units.get(UNIT)).toEqual({
      Description: `Kubernetes pods: ${UNIT}`,
      Wants: ['kubepods-burstable.slice'],
      DefaultDependencies: false,
      MemoryAccounting: true,
      CPUAccounting: true,
      IOAccounting: true,
      TasksAccounting: true,
      CPUWeight: 39n,
      CPUQuotaPeriodUSec: 100_000n,
      CPUQuotaPerSecUSec: 150_000n,
      MemoryMax: 50_331_648n,
      TasksMax: 100n,
    });
  });

  it('that is there already is taken, and its limits are set anew', async () => {
    const { systemd, ports } = await machine(kind);
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources: RESOURCES });
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources: { cpuQuotaUs: '-1', memoryBytes: '-1' } });
    expect(systemd.units.get(UNIT)).toMatchObject({ CPUQuotaPerSecUSec: INFINITY, MemoryMax: INFINITY });
  });

  it('gets a quota in whole per cents of a CPU, rounded up, and its file the same one', async () => {
    const { systemd, ports, tree } = await machine(kind);
    const resources = { cpuPeriodUs: '50000', cpuQuotaUs: '15001' };
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources });
    expect(systemd.units.get(UNIT)).toMatchObject({ CPUQuotaPerSecUSec: 310_000n, CPUQuotaPeriodUSec: 50_000n });
    expect(readFileSync(join(tree, POD, 'cpu.max'), 'utf8')).toBe('15500 50000');
    await perform(ports['cgroup.update'], { driver, path: POD, resources: { ...resources, cpuQuotaUs: '15000' } });
    expect(readFileSync(join(tree, POD, 'cpu.max'), 'utf8')).toBe('15000 50000');
  });

  it('has its CPUs as bits, so that systemd keeps the controller', async () => {
    const { systemd, ports } = await machine(kind);
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources: { cpus: '0-2,9' } });
    expect(systemd.units.get(UNIT)).toMatchObject({ AllowedCPUs: Buffer.from([0b111, 0b10]) });
  });

  it('is not asked for properties that an old systemd does not know', async () => {
    const { systemd, ports } = await machine(kind);
    systemd.version = 'systemd 239 (239-82.el8)';
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources: { ...RESOURCES, cpus: '0-1' } });
    expect(systemd.units.get(UNIT)).toMatchObject({ CPUQuotaPerSecUSec: 150_000n });
    expect(Object.keys(systemd.units.get(UNIT) ?? {})).not.toContain('CPUQuotaPeriodUSec');
    expect(Object.keys(systemd.units.get(UNIT) ?? {})).not.toContain('AllowedCPUs');
  });

  it('is not limited to nothing: zero bytes are no limit, and systemd takes one process at least', async () => {
    const { systemd, ports, tree } = await machine(kind);
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources: { memoryBytes: '0', pids: '0' } });
    expect(systemd.units.get(UNIT)).toMatchObject({ TasksMax: 1n });
    expect(Object.keys(systemd.units.get(UNIT) ?? {})).not.toContain('MemoryMax');
    expect(readFileSync(join(tree, POD, 'memory.max'), 'utf8')).toBe('max');
    expect(readFileSync(join(tree, POD, 'pids.max'), 'utf8')).toBe('1');
  });

  it('is stopped and gone; stopping it again is done', async () => {
    const { systemd, ports, tree } = await machine(kind);
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources: RESOURCES });
    const ending = { driver, paths: [POD], within: '/kubepods.slice' };
    await perform(ports['cgroup.destroy'], ending);
    expect(existsSync(join(tree, POD))).toBe(false);
    await perform(ports['cgroup.destroy'], ending);
    expect(systemd.calls.slice(2)).toEqual([`StopUnit ${UNIT}`, `StopUnit ${UNIT}`]);
  });

  it('whose job fails is an error that says how', async () => {
    const { systemd, ports } = await machine(kind);
    systemd.result = 'failed';
    await expect(perform(ports['cgroup.ensure'], { driver, path: POD, resources: RESOURCES })).rejects.toThrow(
      `systemd: the job of StartTransientUnit ${UNIT}: failed`,
    );
  });

  it('of a manager that is gone is an error, not a wait', async () => {
    const { systemd, ports } = await machine(kind);
    await perform(ports['cgroup.ensure'], { driver, path: POD, resources: RESOURCES });
    await systemd.disconnect();
    await expect(perform(ports['cgroup.update'], { driver, path: POD, resources: RESOURCES })).rejects.toThrow(
      /^systemd: SetUnitProperties: /,
    );
  });
});

it('a machine without systemd says what to do', async () => {
  const root = await temporaryFolder();
  mkdirSync(join(root, 'proc/self'), { recursive: true });
  writeFileSync(join(root, 'proc/self/mountinfo'), '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n');
  const ports = cgroupPorts({ root, systemd: systemdManager(cpuWeight, `unix:path=${root}/no-bus`) });
  await expect(perform(ports['cgroup.ensure'], { driver, path: POD, resources: {} })).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringMatching(/cannot speak to systemd over .*use cgroupDriver cgroupfs/),
  });
});

it('finds the pods of slices by their names', async () => {
  const { ports } = await machine('broker');
  expect(
    await perform(ports['cgroup.listPods'], { driver, parents: ['/kubepods.slice/kubepods-burstable.slice'] }),
  ).toEqual({ pods: [{ uid: '1-2', path: POD }] });
});
