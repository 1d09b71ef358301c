/** Rows S209 to S244: `startKubelet`, `Kubelet.Run` and the loops that they start. */
import { built, instead, type Row, TESTS } from './row.ts';

const { boot, corpus, failures, kubelet, observation, faults } = TESTS;
const RUN = 'kubelet: alive.startup.startKubelet.kubeletRun';

export const LOOP_ROWS: readonly Row[] = [
  built(
    'S209',
    'k.Run beside the rest',
    [RUN, 'kubelet: alive.startup.startKubelet.serving'],
    `${kubelet}::leaves the kubelet waiting`,
  ),
  built(
    'S210',
    'kubelet server',
    ['kubelet: alive.server.running', 'server: open.serving', 'server.serve'],
    [TESTS.server, TESTS.requested, TESTS.authMatrix],
  ),
  built(
    'S211',
    'read-only server',
    ['kubelet: alive.readOnlyServer.running', 'src/machines/startup/server-ports.ts#readOnlyPort'],
    [TESTS.server, TESTS.requested],
  ),
  built(
    'S212',
    'ports by default',
    ['src/machines/startup/server-ports.ts#apiPort', 'kubelet: alive.startup.startKubelet.serving.healthz'],
    [TESTS.server, corpus],
  ),
  built(
    'S213',
    'pod resources server',
    ['localServer: open', 'server.serveLocal'],
    'test/machines/charts/node/local-server.test.ts',
  ),
  instead(
    'S214',
    'cAdvisor JSON endpoints',
    'upstream serves /stats/summary instead',
    'enable-cadvisor-json-endpoints',
  ),
  built('S215', 'debugging handlers', 'src/actors/server/kubelet-api.ts#kubeletApi', TESTS.requested),
  built('S216', 'log server', 'src/actors/server/endpoints/node-logs.ts#nodeLogEndpoints', TESTS.requested),
  built('S217', 'no API server said', `${RUN}.initializingModules`, boot),
  instead('S218', 'cloud sync manager', 'the cloud controller manager sets addresses', 'cloud-config'),
  built(
    'S219',
    'initializeModules is fatal',
    `${RUN}.initializingModules`,
    `${failures}::Failed to initialize internal modules`,
  ),
  built('S220', 'volume manager runs', ['volumes: deciding'], ['test/node/volumes.test.ts']),
  built(
    'S221',
    'syncNodeStatus',
    ['nodeStatus: reporting'],
    ['test/machines/charts/node/node-status.test.ts', 'test/node/cluster-node.test.ts'],
  ),
  built('S222', 'fastStatusUpdateOnce', ['nodeStatus: known'], ['test/machines/charts/node/node-status.test.ts']),
  built(
    'S223',
    'node lease',
    ['lease: renewing'],
    ['test/machines/charts/node/lease.test.ts', 'test/node/cluster-node.test.ts'],
  ),
  built(
    'S224',
    'updateRuntimeUp each 5 s',
    ['runtimeService: connected', 'runtime.watchStatus'],
    [TESTS.runtimeService, kubelet],
  ),
  built(
    'S225',
    'iptables chains',
    ['iptables: keeping', 'host.keepIptables'],
    ['test/machines/startup/host/iptables.test.ts', 'test/actors/host/kernel/iptables.test.ts'],
  ),
  instead('S226', 'syncNetworkStatus', 'NetworkReady of the runtime'),
  instead('S227', 'podKiller', 'housekeeping of the sync loop ends orphaned pods'),
  built('S228', 'status manager starts', 'kubelet: alive.status.running', [boot, observation]),
  instead('S229', 'probe manager starts', 'probes start with their containers upstream'),
  built(
    'S230',
    'RuntimeClass manager starts',
    ['src/machines/model/objects/keys.ts#runtimeClassKey'],
    ['test/machines/charts/pods/cluster/objects.test.ts'],
  ),
  built('S231', 'PLEG starts', [`${RUN}.startingLoops`, 'kubelet: alive.pleg.running'], [boot, observation]),
  built('S232', 'sync loop', [`${RUN}.startingLoops`, 'kubelet: alive.syncLoop.running'], [boot, observation]),
  built(
    'S233',
    'data directories',
    [`${RUN}.initializingModules`, 'src/machines/startup/start-kubelet.ts#dataDirectories'],
    [failures, TESTS.files],
  ),
  built('S234', 'container logs directory', `${RUN}.containerLogs`, `${failures}::container log links`),
  built(
    'S235',
    'modules that need no runtime',
    [
      'kubelet: alive.startup.startKubelet.kubeletRun.startingLoops',
      'oomWatcher: opening',
      'certificateManager: working',
    ],
    ['test/machines/charts/node/oom-watcher.test.ts', 'test/machines/startup/certificates/certificate-manager.test.ts'],
  ),
  built(
    'S236',
    'updateRuntimeUp',
    [`${RUN}.waitingForRuntime`, 'runtimeState: judging'],
    [`${kubelet}::without its network`, TESTS.runtimeState],
  ),
  built(
    'S237',
    'cAdvisor starts',
    [
      'kubelet: alive.startup.startKubelet.kubeletRun.runtimeDependentModules',
      'src/machines/model/cgroups/node-groups.ts#statsPlace',
    ],
    ['test/actors/stats/reader.test.ts'],
  ),
  built(
    'S238',
    'container manager starts',
    [`${RUN}.runtimeDependentModules`, 'containerManager: running'],
    [boot, kubelet],
  ),
  built(
    'S239',
    'eviction manager starts',
    ['eviction: watch'],
    ['test/machines/charts/node/eviction/eviction.test.ts'],
  ),
  built(
    'S240',
    'container log manager starts',
    ['containerLog: kept'],
    ['test/machines/charts/pods/container/container-log.test.ts'],
  ),
  built(
    'S241',
    'plugin manager starts',
    [
      'kubelet: alive.pluginManager.running',
      'src/machines/charts/node/plugin-policy.ts#pluginVerdict',
      'deviceManager: ready',
    ],
    ['test/node/plugins.test.ts', 'test/node/devices.test.ts'],
  ),
  built('S242', 'channels of the sync loop', ['syncLoop: syncing', `${RUN}.synchronizing`], [observation, kubelet]),
  built('S243', 'changes of pods', 'src/machines/charts/pods/config/pod-source.ts#differences', [
    TESTS.subsystems,
    TESTS.pod,
  ]),
  built('S244', 'housekeeping', 'src/machines/charts/pods/sync-loop.ts#HOUSEKEEPING_MS', `${faults}::orphaned pods`),
];
