/** Rows S052 to S114: clients, auth, cgroups, container manager and runtime, in `run()`. */
import { built, instead, type Row, TESTS } from './row.ts';

const { boot, failures, kubelet, corpus, values, refusals } = TESTS;
const CONFIGURATION = 'src/machines/configuration';
const SETTINGS = 'src/machines/startup/context/derive-settings.ts';
const CLIENTS = 'kubelet: alive.startup.run.clients';
const BUILDER = 'src/machines/startup/clients/client-builder.ts';
const clients = 'test/machines/startup/clients/client-builder.test.ts';
const kube = 'test/actors/kube/client.test.ts';

export const RUN_ROWS: readonly Row[] = [
  built('S052', 'standalone detection', 'clientBuilder: detectingMode', clients),
  instead(
    'S053',
    'cloud provider',
    'only external or none; a built-in one is refused with upstream words',
    'cloud-config',
  ),
  built(
    'S054',
    'host name',
    ['src/machines/startup/run.ts#nodeNameOf', 'host.hostname'],
    [`${failures}::an empty host name`, kubelet],
  ),
  built('S055', 'node name', 'src/machines/startup/run.ts#nodeNameOf', `${kubelet}::other-name`),
  built('S056', 'standalone clients absent', ['clientBuilder: standalone', CLIENTS], `${clients}::in standalone mode`),
  built(
    'S057',
    'client configuration',
    ['clientBuilder: connecting', 'src/actors/kube/kubeconfig.ts#loadKubeconfig', 'certificateManager: working'],
    [clients, 'test/actors/certificate/certificates.test.ts', 'test/node/configuration-elsewhere.test.ts'],
  ),
  built(
    'S058',
    'closeAllConns',
    ['kube.closeConnections', 'lease: reconnecting'],
    ['test/actors/kube/following.test.ts::is found by the lease', 'test/machines/charts/node/lease.test.ts'],
  ),
  built(
    'S059',
    'KubeClient',
    [CLIENTS, 'kube.connect', 'src/actors/kube/client.ts#KubeClient'],
    [clients, `${kube}::keeps the rate of one client`],
  ),
  built('S060', 'EventClient', `${BUILDER}#kubeSettings`, `${clients}::connects the three clients`),
  built('S061', 'HeartbeatClient', 'src/actors/kube/index.ts#clientsOf', `${kube}::without holding up another`),
  built('S062', 'heartbeat timeout', `${BUILDER}#kubeSettings`, [
    `${clients}::gives a heartbeat the shorter of`,
    `${kube}::ends a heartbeat when its time is over`,
  ]),
  built(
    'S063',
    'heartbeat client error',
    'clientBuilder: refused',
    `${clients}::says as upstream why there are no clients`,
  ),
  built(
    'S064',
    'BuildAuth',
    ['kubelet: alive.startup.run.auth', 'src/machines/startup/clients/auth.ts#buildAuth'],
    [refusals, failures],
  ),
  built(
    'S065',
    'client CA reload',
    ['src/actors/server/tls/material.ts#watchMaterial', 'server: open'],
    [TESTS.serverTls, TESTS.server],
  ),
  built(
    'S066',
    'NodeAllocatableRoot',
    ['src/machines/startup/container-manager/policy.ts#cgroupRoots'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built(
    'S067',
    'kubelet cgroup found out',
    ['cgroup.own', 'containerManager: running'],
    ['test/machines/startup/refusals.test.ts', 'test/actors/cgroup/version-1.test.ts'],
  ),
  built(
    'S068',
    'runtime cgroup',
    ['src/machines/startup/container-manager/policy.ts#cgroupRoots'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built(
    'S069',
    'system cgroups',
    ['src/machines/startup/container-manager/policy.ts#cgroupRoots'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built('S070', 'cAdvisor', ['kubelet: alive.startup.run.cadvisor', 'cadvisor: readingMachineInfo'], [refusals, boot]),
  instead('S071', 'port of cAdvisor', 'no port of its own', 'cadvisor-port'),
  built('S072', 'image file system', ['cri.imageFsInfo', 'imageGC: measuring'], `${TESTS.subsystems}::imageGC`),
  built(
    'S073',
    'event recorder',
    [
      'kubelet: alive.startup.run.eventRecorder',
      'src/machines/charts/pods/events/event-recorder.ts#eventRecorderMachine',
    ],
    boot,
  ),
  built('S074', 'events and their counts', 'src/machines/model/reasons/reasons.ts#containerEvents', [
    TESTS.reasons,
    `${TESTS.subsystems}::eventRecorder`,
  ]),
  built(
    'S075',
    'cgroup root defaults to /',
    ['src/machines/startup/container-manager/policy.ts#cgroupRoots'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built('S076', 'QoS cgroups', 'src/machines/model/spec/qos.ts#cgroupParent', [TESTS.spec, TESTS.requests]),
  built('S077', 'machine info', ['cadvisor: readingMachineInfo', 'host.machineInfo'], [refusals, TESTS.machine]),
  built('S078', 'reserved-cpus parsed', 'src/machines/model/values/cpu-set.ts#parseCpuSet', [values, corpus]),
  built(
    'S079',
    'reserved-cpus within the machine',
    ['src/machines/model/cgroups/allocatable.ts#nodeResources'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built(
    'S080',
    'reserved-cpus over reservations',
    [
      'src/machines/model/cgroups/allocatable.ts#nodeResources',
      'src/machines/configuration/validation/resource-managers.ts#reservedCPULines',
    ],
    ['test/machines/startup/refusals.test.ts', 'test/machines/configuration/corpus.test.ts'],
  ),
  built(
    'S081',
    'kube- and system-reserved parsed',
    `${CONFIGURATION}/validation/resource-managers.ts#parseReservedResources`,
    corpus,
  ),
  built(
    'S082',
    'hard eviction thresholds parsed',
    'src/machines/model/configuration/eviction-thresholds.ts#parseEvictionThresholds',
    corpus,
  ),
  built('S083', 'ParseQOSReserved', `${CONFIGURATION}/validation/resource-managers.ts#parseQosReserved`, corpus),
  instead('S084', 'DevicePlugins gate', 'always on upstream; no gate of that name'),
  instead('S085', 'CPUManagerPolicyOptions gate', 'options need no gate upstream any more'),
  built(
    'S086',
    'runtime cgroup name',
    ['src/machines/startup/container-manager/policy.ts#ContainerManagerInput'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built(
    'S087',
    'system cgroup name',
    ['src/machines/startup/container-manager/policy.ts#ContainerManagerInput', 'cgroup.gather'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built(
    'S088',
    'kubelet cgroup name',
    ['src/machines/startup/container-manager/policy.ts#ContainerManagerInput', 'cgroup.gather'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  instead('S089', 'container runtime name for cgroups', 'the runtime is always CRI', 'container-runtime'),
  built('S090', 'CgroupsPerQOS', 'src/machines/model/spec/qos.ts#cgroupParent', [TESTS.spec, refusals]),
  built(
    'S091',
    'CgroupRoot',
    [
      'src/machines/startup/container-manager/policy.ts#cgroupRoots',
      'src/machines/startup/container-manager/policy.ts#missingRoot',
    ],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built(
    'S092',
    'CgroupDriver',
    ['runtimeService: discoveringCgroupDriver', 'cri.runtimeConfig'],
    [TESTS.runtimeService, failures],
  ),
  built('S093', 'KubeletRootDir', `${SETTINGS}#deriveSettings`, kubelet),
  built(
    'S094',
    'ProtectKernelDefaults',
    ['src/machines/startup/container-manager/policy.ts#KERNEL_SETTINGS', 'host.tuneKernel', 'containerManager: tuning'],
    ['test/machines/startup/refusals.test.ts'],
  ),
  built(
    'S095',
    'node allocatable',
    [
      'src/machines/model/cgroups/allocatable.ts#nodeResources',
      'src/machines/model/cgroups/node-groups.ts#nodeAllocatableGroup',
    ],
    ['test/machines/startup/refusals.test.ts', 'test/actors/cgroup/version-1.test.ts'],
  ),
  built(
    'S096',
    'QOSReserved',
    [
      'src/machines/model/cgroups/node-groups.ts#qosGroups',
      'src/machines/configuration/validation/resource-managers.ts#parseQosReserved',
    ],
    ['test/actors/cgroup/version-1.test.ts', 'test/machines/configuration/corpus.test.ts'],
  ),
  built(
    'S097',
    'CPU manager',
    [
      `${CONFIGURATION}/validation/resource-managers.ts#cpuManagerError`,
      'src/machines/model/allocation/cpu-manager.ts#allocateCpus',
      'src/machines/charts/pods/pod/pod-allocation.ts#pinning',
    ],
    [
      'test/machines/model/allocation/cpu-manager.test.ts',
      'test/machines/charts/pods/pod/pod-cpus.test.ts',
      'test/node/cpu-manager.test.ts',
    ],
  ),
  built(
    'S098',
    'memory manager',
    [
      `${CONFIGURATION}/validation/resource-managers.ts#memoryManagerError`,
      'src/machines/model/allocation/memory-manager.ts#allocateMemory',
      'src/machines/model/allocation/memory-state-file.ts#memoryStateText',
    ],
    [
      'test/machines/model/allocation/memory-manager.test.ts',
      'test/machines/charts/pods/pod/pod-cpus.test.ts',
      'test/machines/model/allocation/state-files.test.ts',
    ],
  ),
  built(
    'S099',
    'PodPidsLimit',
    ['src/machines/startup/context/derive-settings.ts#deriveSettings'],
    ['test/actors/cgroup/version-1.test.ts'],
  ),
  built('S100', 'CPU quota and its period', 'src/machines/model/spec/resources.ts#cpuQuota', [
    TESTS.resources,
    TESTS.requests,
  ]),
  built(
    'S101',
    'topology manager',
    [
      `${CONFIGURATION}/validation/settings.ts#topologyOptions`,
      'src/machines/model/allocation/topology-manager.ts#align',
      'src/machines/startup/container-manager/policy.ts#alignmentRefusal',
    ],
    [
      'test/machines/model/allocation/topology-manager.test.ts',
      'test/machines/startup/container-manager/container-manager.test.ts',
      'test/node/cpu-manager.test.ts',
      TESTS.corpus,
    ],
  ),
  built(
    'S102',
    'NewContainerManager',
    ['kubelet: alive.startup.run.containerManager', 'containerManager: created'],
    ['test/machines/startup/refusals.test.ts', 'test/machines/startup/boot-failures.test.ts'],
  ),
  instead('S103', 'EnableCRI', 'the runtime is always CRI', 'container-runtime'),
  instead('S104', 'ReallyCrashForTesting', 'a crash of one actor is contained, journaled and answered by a restart'),
  built('S105', 'OOM score', ['kubelet: alive.startup.run.oomScore', 'host.setOomScoreAdj'], [failures, TESTS.limits]),
  built(
    'S106',
    'PreInitRuntimeService',
    ['kubelet: alive.startup.run.runtimeService', 'runtime.connect'],
    [TESTS.runtimeService, failures],
  ),
  instead('S107', 'dockershim', 'the runtime is always CRI', ['network-plugin', 'network-plugin-mtu']),
  instead('S108', 'NonMasqueradeCIDR', 'the network of the runtime', 'non-masquerade-cidr'),
  instead('S109', 'dynamic configuration', 'use --config and --config-dir', 'dynamic-config-dir'),
  built(
    'S110',
    'healthz',
    ['kubelet: alive.startup.startKubelet.serving.healthz', 'server.healthz'],
    [`${failures}::each five seconds`, TESTS.healthz],
  ),
  built('S111', 'healthz port', `src/machines/model/configuration/fields.ts#kubeletConfigurationType`, [boot, corpus]),
  built('S112', 'runonce returns', ['runOnce: finished', 'kubelet: stopped'], [TESTS.runOnce, TESTS.runOnceDaemon]),
  built(
    'S113',
    'READY=1',
    ['kubelet: alive.startup.startKubelet.serving.notifyingReady', 'host.notify'],
    [boot, TESTS.limits],
  ),
  built('S114', 'block until the end', 'kubelet: alive.startup.startKubelet.serving.blocked', [
    boot,
    `${kubelet}::a signal`,
  ]),
];
