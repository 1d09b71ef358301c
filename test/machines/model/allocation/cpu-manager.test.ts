/** The CPUs of containers, compared with those of the Go kubelet's static policy on the same machines. */

import { describe, expect, it } from 'vitest';
import { allocatableCpus, reservedCpus, sharedCpus } from '../../../../src/machines/model/allocation/cpu-manager.ts';
import { type ExclusiveRequest, exclusiveRequests } from '../../../../src/machines/model/allocation/request.ts';
import { assign } from '../../../../src/machines/model/allocation/resource-assignment.ts';
import type { Pod } from '../../../../src/machines/model/api/pod.ts';
import type { Holding } from '../../../../src/machines/model/operations/grants.ts';
import type { Cpu, CpuManagerSettings } from '../../../../src/machines/model/settings/node-settings.ts';

/** As the kernel numbers them: first one thread of each core, socket by turns, then the second threads. */
function machine(sockets: number, cores: number, threads: number): readonly Cpu[] {
  const all = sockets * cores;
  return Array.from({ length: all * threads }, (_, id) => {
    const socket = (id % all) % sockets;
    return { id, core: Math.floor((id % all) / sockets), socket, numaNode: socket };
  });
}

/** Cores 0/4, 1/5, 2/6 and 3/7. */
const ONE_SOCKET = machine(1, 4, 2);
const ids = (cpus: readonly Cpu[]) => cpus.map(({ id }) => id);

const settings = (change: Partial<CpuManagerSettings> = {}): CpuManagerSettings => ({
  cpus: ONE_SOCKET,
  reserved: [0],
  wholeCores: false,
  isReservationStrict: false,
  ...change,
});

const cpuRequests = (wanted: Pod) => exclusiveRequests(wanted, {});
const assignCpus = (cpuManager: CpuManagerSettings, requests: readonly ExclusiveRequest[], held: readonly Holding[]) =>
  assign({ cpuManager }, requests, held);

type Amount = readonly [name: string, cpu: string, restartPolicy?: string];
const containers = (amounts: readonly Amount[]) =>
  amounts.map(([name, cpu, restartPolicy]) => ({
    name,
    ...(restartPolicy === undefined ? {} : { restartPolicy: 'Always' as const }),
    resources: { limits: { cpu, memory: '1Mi' }, requests: { cpu, memory: '1Mi' } },
  }));
const pod = (apps: readonly Amount[], inits: readonly Amount[] = []): Pod => ({
  metadata: { uid: 'u', name: 'p', namespace: 'n' },
  spec: { containers: containers(apps), initContainers: containers(inits) },
});

describe('CPUs of their own are', () => {
  it('of containers with whole CPUs in a guaranteed pod', () => {
    expect(
      cpuRequests(
        pod([
          ['a', '2'],
          ['b', '1500m'],
          ['c', '1000m'],
        ]),
      ),
    ).toEqual([
      { container: 'a', cpus: 2, isInit: false },
      { container: 'c', cpus: 1, isInit: false },
    ]);
  });

  it('not of other pods, nor where the pod as a whole has its resources', () => {
    const { metadata, spec } = pod([['a', '2']]);
    const [first] = spec.containers;
    const burstable = { ...first!, resources: { requests: { cpu: '2' }, limits: { cpu: '3' } } };
    expect(cpuRequests({ metadata, spec: { containers: [burstable] } })).toEqual([]);
    const resources = { requests: { cpu: '2', memory: '1Mi' }, limits: { cpu: '2', memory: '1Mi' } };
    expect(cpuRequests({ metadata, spec: { ...spec, resources } })).toEqual([]);
  });

  it('neither reserved nor of another pod, and not shared', () => {
    const held = [{ cpus: { x: '4' } }, {}];
    expect(
      assignCpus(
        settings(),
        cpuRequests(
          pod([
            ['a', '2'],
            ['b', '1'],
          ]),
        ),
        held,
      ),
    ).toEqual({
      cpus: { a: '1,5', b: '2' },
    });
    expect(sharedCpus(settings(), [{ cpus: { a: '1,5', b: '2' } }])).toBe('0,3-4,6-7');
    expect(sharedCpus(settings({ isReservationStrict: true }), [{ cpus: { a: '1,5' } }])).toBe('2-4,6-7');
  });

  it('of init containers used again, those of sidecars are not', () => {
    const inits: readonly Amount[] = [
      ['i', '4'],
      ['s', '2', 'Always'],
      ['j', '1'],
    ];
    expect(assignCpus(settings(), cpuRequests(pod([['a', '4']], inits)), [])).toEqual({
      cpus: { i: '1-2,5-6', s: '1,5', j: '4', a: '2-3,6-7' },
    });
  });

  it('of init containers no better than free ones: a whole core comes first', () => {
    const inits: readonly Amount[] = [['i', '1']];
    expect(assignCpus(settings(), cpuRequests(pod([['a', '2']], inits)), [])).toEqual({ cpus: { i: '4', a: '1,5' } });
  });

  it('refused where there are too few, in upstream words', () => {
    expect(assignCpus(settings(), cpuRequests(pod([['a', '8']])), [])).toEqual({
      rejection: {
        reason: 'UnexpectedAdmissionError',
        message:
          'Allocate failed due to not enough cpus available to satisfy request: requested=8, available=7, which is ' +
          'unexpected',
      },
    });
  });
});

describe('with full-pcpus-only', () => {
  const whole = settings({ wholeCores: true });

  it('a core with a reserved thread is not given to a container with whole cores', () => {
    expect(allocatableCpus(whole)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    const six = assignCpus(whole, cpuRequests(pod([['a', '6']])), []);
    expect(six).toEqual({ cpus: { a: '1-3,5-7' } });
  });

  it('what an init container has had does not count as free', () => {
    const inits: readonly Amount[] = [['i', '4']];
    const cause = 'available physical CPUs = 2, requested CPUs = 4, CPUs per core = 2';
    expect(assignCpus(whole, cpuRequests(pod([['a', '4']], inits)), [])).toEqual({
      rejection: {
        reason: 'SMTAlignmentError',
        message: `SMT Alignment Error: not enough free physical CPUs: ${cause}`,
      },
    });
  });

  it.each([
    ['3', 'SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2'],
    [
      '8',
      'SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, CPUs per ' +
        'core = 2',
    ],
  ])('%s CPUs are refused in upstream words', (cpu, message) => {
    const rejection = { reason: 'SMTAlignmentError', message };
    expect(assignCpus(whole, cpuRequests(pod([['a', cpu]])), [])).toEqual({ rejection });
  });
});

describe('reserved are', () => {
  const reserved = (list: string, milli: bigint) => reservedCpus(settings(), list, milli);
  it('the CPUs that are named', () => expect(reserved('1,3-4', 500n)).toEqual([1, 3, 4]));
  it('or as many as the time needs, in whole cores', () => {
    expect(reserved('', 500n)).toEqual([0]);
    expect(reserved('', 1_500n)).toEqual([0, 4]);
    expect(reserved('', 99_000n)).toEqual(ids(ONE_SOCKET));
  });
});
