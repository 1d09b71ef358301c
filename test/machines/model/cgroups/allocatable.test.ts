/**
 * The capacity of a node, its reservations, and the rest for pods. The amounts of the first node are those of
 * `golden/pods`.
 */
import { describe, expect, it } from 'vitest';
import { nodeResources } from '../../../../src/machines/model/cgroups/allocatable.ts';
import type { MachineInfo } from '../../../../src/machines/model/operations/host.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';

const MACHINE: MachineInfo = {
  cores: 2,
  memoryBytes: '25276514304',
  kernelVersion: '6',
  osImage: 'x',
  machineId: 'm',
  systemUuid: 'u',
  bootId: 'b',
  swapBytes: '0',
  hugePageKib: [2_048],
  hugePageTotals: { 'hugepages-2Mi': '0' },
  pidMax: '32768',
  architecture: 'amd64',
  appArmor: false,
  topology: { cpus: [], numaNodes: [], disks: [], fileSystems: [] },
};
const SETTINGS: Parameters<typeof nodeResources>[0] = {
  kubeReserved: {},
  systemReserved: {},
  evictionHard: { 'memory.available': '100Mi' },
  maxPods: 110,
  podsPerCore: 0,
  reservedSystemCPUs: '',
  ignoreEviction: false,
};

/** The number of behaviors before `groupsAsKubelet`. */
const BEFORE = 36;

function resources(
  settings: Partial<typeof SETTINGS> = {},
  machine: Partial<MachineInfo> = {},
  behavior = NEWEST_BEHAVIOR,
) {
  const answer = nodeResources(
    { ...SETTINGS, ...settings },
    { machine: { ...MACHINE, ...machine }, storageBytes: '1000000' },
    { behavior },
  );
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer.value;
}

describe('what is left for pods', () => {
  it('is the capacity without what must stay free, as it was recorded', () => {
    const { capacity, allocatable, podsLimit } = resources();
    expect(capacity).toEqual({
      cpu: '2',
      memory: '24684096Ki',
      'hugepages-2Mi': '0',
      'ephemeral-storage': '1000000',
      pods: '110',
    });
    expect(allocatable).toEqual({ ...capacity, memory: '24581696Ki' });
    expect(podsLimit).toEqual({ ...capacity, pid: '32768' });
  });

  it('is less by what daemons get, and by shares of what there is', () => {
    const { allocatable, podsLimit } = resources({
      kubeReserved: { cpu: '200m', memory: '1Gi', pid: '100' },
      systemReserved: { cpu: '300m', 'ephemeral-storage': '100k' },
      evictionHard: { 'memory.available': '10%', 'nodefs.available': '15%' },
    });
    expect(allocatable).toMatchObject({ cpu: '1500m', 'ephemeral-storage': '750000' });
    // As a 32-bit float, a tenth is a little more than a tenth.
    expect(allocatable['memory']).toBe('21675121012');
    expect(podsLimit).toMatchObject({ cpu: '1500m', memory: '23635520Ki', pid: '32668' });
  });

  it('is less by huge pages, which are memory, too; the group of all pods is not, for the kernel counts them apart', () => {
    const pages = { hugePageTotals: { 'hugepages-2Mi': '1073741824' } };
    const { allocatable, podsLimit } = resources({ evictionHard: {} }, pages);
    expect(allocatable).toMatchObject({ memory: '23635520Ki', 'hugepages-2Mi': '1Gi' });
    expect(podsLimit).toMatchObject({ memory: '24684096Ki', 'hugepages-2Mi': '1Gi' });
  });

  it('is less by all huge pages, also by those that daemons get, as in the kubelet', () => {
    const pages = { hugePageTotals: { 'hugepages-2Mi': '1073741824' } };
    const settings = { evictionHard: {}, kubeReserved: { 'hugepages-2Mi': '512Mi' } };
    const { allocatable } = resources(settings, pages);
    expect(allocatable).toMatchObject({ memory: '23635520Ki', 'hugepages-2Mi': '512Mi' });
    expect(resources(settings, pages, BEFORE).allocatable).toMatchObject({ memory: '24159808Ki' });
  });

  it('is not less by eviction where the owner says so, and never less than nothing', () => {
    expect(resources({ ignoreEviction: true }).allocatable).toMatchObject({ memory: '24684096Ki' });
    const { allocatable } = resources({ evictionHard: {} }, { hugePageTotals: { 'hugepages-2Mi': '30000000000' } });
    expect(allocatable['memory']).toBe('0');
  });

  it('counts pods by core where that is less', () => {
    expect(resources({ podsPerCore: 10 }).capacity).toMatchObject({ pods: '20' });
  });
});

describe('reserved CPUs', () => {
  it('are the last word on the CPU that is kept back', () => {
    const { allocatable, kubeReserved, systemReserved } = resources({
      reservedSystemCPUs: '0',
      kubeReserved: { cpu: '100m', memory: '1Mi' },
      systemReserved: { cpu: '100m' },
    });
    expect(allocatable).toMatchObject({ cpu: '1' });
    expect(kubeReserved).toEqual({ memory: '1Mi' });
    expect(systemReserved).toEqual({ cpu: '1' });
  });

  it.each([
    ['0-3', 'reserved-cpus: 0-3 is not a subset of online-cpus: 0-1'],
    ['x', 'unable to parse reserved-cpus list: strconv.Atoi: parsing "x": invalid syntax'],
  ])('%s are refused', (reservedSystemCPUs, error) => {
    expect(() => resources({ reservedSystemCPUs })).toThrow(error);
  });
});

it('more than there is cannot be kept back, in the words of the kubelet', () => {
  const settings = { kubeReserved: { cpu: '1500m' }, systemReserved: { cpu: '700m' } };
  const invalid = 'invalid Node Allocatable configuration. Resource "cpu" has';
  const since = `${invalid} a reservation of 2200m but capacity of 2. Expected capacity >= reservation.`;
  expect(() => resources(settings)).toThrow(since);
  expect(() => resources(settings, {}, BEFORE)).toThrow(`${invalid} an allocatable of 2200m, capacity of -200m`);
});
