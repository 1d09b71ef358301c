/** The small subsystems of the start that accept or refuse: auth, container manager, cadvisor, node IPs. */

import { describe, expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../src/machines/model/settings/behaviors.ts';
import { authMachine, buildAuth } from '../../../src/machines/startup/clients/auth.ts';
import { containerManagerMachine } from '../../../src/machines/startup/container-manager/container-manager.ts';
import { type ContainerManagerInput, cgroupRoots } from '../../../src/machines/startup/container-manager/policy.ts';
import { cadvisorMachine } from '../../../src/machines/startup/host/cadvisor.ts';
import { parseNodeIPs } from '../../../src/machines/startup/host/node-ip.ts';
import { type Answers, fail, ok, runUnder } from '../../support/answering-world.ts';
import { GROUPS } from './boot-node.ts';

describe('auth', () => {
  const input = {
    anonymous: true,
    webhookAuthentication: false,
    clientCAFile: '',
    authorizationMode: 'AlwaysAllow',
    hasClient: false,
  };

  it('answers what the configuration asks for', () => {
    const run = runUnder(authMachine, input, {});
    expect(run.sent()).toMatchObject([{ output: { ok: true, value: { anonymous: true } } }]);
  });

  it.each([
    [{ webhookAuthentication: true }, 'no client provided, cannot use webhook authentication'],
    [{ authorizationMode: 'Webhook' }, 'no client provided, cannot use webhook authorization'],
    [{ authorizationMode: '' }, 'no authorization mode specified'],
    [{ authorizationMode: 'Open' }, 'unknown authorization mode Open'],
  ])('refuses %o', (change, message) => {
    expect(buildAuth({ ...input, ...change })).toEqual({ ok: false, message });
  });
});

describe('the container manager', () => {
  const input: ContainerManagerInput = {
    behavior: NEWEST_BEHAVIOR,
    machineInfo: {
      cores: 2,
      memoryBytes: '1024',
      kernelVersion: '6',
      osImage: 'x',
      machineId: 'm',
      systemUuid: 'u',
      bootId: 'b',
      swapBytes: '0',
      hugePageKib: [2048],
      hugePageTotals: {},
      pidMax: '32768',
      architecture: 'amd64',
      appArmor: false,
      topology: { cpus: [], numaNodes: [], disks: [], fileSystems: [] },
    },
    cgroupsPerQOS: true,
    nodeName: 'node1',
    usesCgroups: true,
    cgroupRoot: '/',
    cgroupDriver: 'cgroupfs',
    hugePageSizes: ['2MB'],
    enforceNodeAllocatable: ['pods'],
    kubeReservedCgroup: '',
    systemReservedCgroup: '',
    memoryReservedPercent: null,
    memoryQoS: false,
    protectKernelDefaults: false,
    cpuManagerPolicy: 'none',
    cpuManagerPolicyOptions: {},
    maxNumaNodes: 8,
    memoryManagerPolicy: 'None',
    memoryManagerError: '',
    managers: {},
    rootDir: '/root',
    oomScoreAdj: -999,
    storagePath: '/var/lib/kubelet',
    reservations: {
      kubeReserved: {},
      systemReserved: {},
      evictionHard: {},
      maxPods: 110,
      podsPerCore: 0,
      reservedSystemCPUs: '',
      ignoreEviction: false,
    },
    kubeletCgroups: '',
    runtimeCgroups: '',
    systemCgroups: '',
    failCgroupV1: false,
    failSwapOn: true,
  };
  const v1: Answers = {
    ...GROUPS,
    'host.cgroups': ok({ version: 1, controllers: ['cpu'], swapCounted: false }),
    'host.fileSystem': ok({ capacityBytes: '1000', availableBytes: '500' }),
    'cgroup.own': ok({ path: '/kubelet' }),
  };

  it('is created, and starts only when the runtime was up', () => {
    const run = runUnder(containerManagerMachine, input, v1, ['allocation']);
    expect(run.sent().map(({ type }) => type)).toEqual(['containerManager.created']);
    run.send({ type: 'containerManager.start' });
    run.time.advanceTo(run.time.now());
    expect(run.sent().map(({ type }) => type)).toEqual([
      'containerManager.created',
      'containerManager.started',
      'resources.wanted',
    ]);
    expect(run.divergence()).toBeNull();
  });

  it.each([
    [{ failCgroupV1: true }, v1, 'kubelet is configured to not run on a host using cgroup v1'],
    [{ machineInfo: { ...input.machineInfo, swapBytes: '4096' } }, v1, 'running with swap on is not supported'],
    [{}, { 'host.cgroups': fail('no /proc/mounts') }, 'failed to get mounted cgroup subsystems: no /proc/mounts'],
  ])('refuses %o', (change, answers, message) => {
    const run = runUnder(containerManagerMachine, { ...input, ...change }, answers);
    expect(run.sent()).toMatchObject([{ type: 'containerManager.failed', message: expect.stringContaining(message) }]);
  });

  it('names the roots as upstream does', () => {
    expect(cgroupRoots(input).nodeAllocatable).toBe('/kubepods');
    expect(cgroupRoots({ ...input, cgroupRoot: '/golden' }).nodeAllocatable).toBe('/golden/kubepods');
    expect(cgroupRoots({ ...input, cgroupDriver: 'systemd' }).nodeAllocatable).toBe('/kubepods.slice');
  });
});

describe('cadvisor', () => {
  it('answers machine info, or why there is none', () => {
    const info = { cores: 4 };
    expect(runUnder(cadvisorMachine, {}, { 'host.machineInfo': ok(info) }).sent()).toMatchObject([
      { output: { ok: true, value: info } },
    ]);
    expect(runUnder(cadvisorMachine, {}, { 'host.machineInfo': fail('no /proc') }).sent()).toMatchObject([
      { output: { ok: false, message: 'no /proc' } },
    ]);
  });
});

describe('--node-ip', () => {
  it.each([
    ['10.0.0.1', ['10.0.0.1']],
    [' 10.0.0.1 , fd00::1', ['10.0.0.1', 'fd00::1']],
    ['nonsense,10.0.0.1', ['10.0.0.1']],
    ['', []],
  ])('%j gives %j', (value, expected) => {
    expect(parseNodeIPs(value, '')).toEqual({ ok: true, value: expected });
  });

  it.each([
    ['10.0.0.1,10.0.0.2', '', 'must contain either a single IP or a dual-stack pair of IPs'],
    ['10.0.0.1,fd00::1,fd00::2', '', 'must contain either a single IP or a dual-stack pair of IPs'],
    ['10.0.0.1,fd00::1', 'aws', 'dual-stack not supported in this configuration'],
    ['0.0.0.0,fd00::1', '', "dual-stack node IP cannot include '0.0.0.0' or '::'"],
  ])('%j with cloud provider %j is refused', (value, provider, text) => {
    expect(parseNodeIPs(value, provider)).toEqual({
      ok: false,
      message: `bad --node-ip ${JSON.stringify(value)}: ${text}`,
    });
  });
});
