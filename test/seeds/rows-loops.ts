/** Rows S209 to S244: `startKubelet`, `Kubelet.Run` and the loops that go on from there. */
import { built, instead, planned, type Row, TESTS } from './row.ts';

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
    ['kubelet: alive.readOnlyServer.running', 'src/machines/node/server-ports.ts#readOnlyPort'],
    [TESTS.server, TESTS.requested],
  ),
  built(
    'S212',
    'ports by default',
    ['src/machines/node/server-ports.ts#apiPort', 'kubelet: alive.startup.startKubelet.serving.healthz'],
    [TESTS.server, corpus],
  ),
  planned('S213', 'pod resources server', 'server'),
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
  planned('S220', 'volume manager runs', 'pods'),
  planned('S221', 'syncNodeStatus', 'cluster'),
  planned('S222', 'fastStatusUpdateOnce', 'cluster'),
  planned('S223', 'node lease', 'cluster'),
  built(
    'S224',
    'updateRuntimeUp each 5 s',
    ['runtimeService: connected', 'runtime.watchStatus'],
    [TESTS.runtimeService, kubelet],
  ),
  planned('S225', 'iptables chains', 'pods'),
  instead('S226', 'syncNetworkStatus', 'NetworkReady of the runtime'),
  instead('S227', 'podKiller', 'housekeeping of the sync loop ends pods that nobody wants'),
  built('S228', 'status manager starts', 'kubelet: alive.status.running', [boot, observation]),
  instead('S229', 'probe manager starts', 'probes start with their containers upstream'),
  planned('S230', 'RuntimeClass manager starts', 'cluster'),
  built('S231', 'PLEG starts', [`${RUN}.startingLoops`, 'kubelet: alive.pleg.running'], [boot, observation]),
  built('S232', 'sync loop', [`${RUN}.startingLoops`, 'kubelet: alive.syncLoop.running'], [boot, observation]),
  built(
    'S233',
    'data directories',
    [`${RUN}.initializingModules`, 'src/machines/startup/start-kubelet.ts#dataDirectories'],
    [failures, TESTS.files],
  ),
  built('S234', 'container logs directory', `${RUN}.containerLogs`, `${failures}::container log links`),
  planned('S235', 'modules that need no runtime', 'pods', [
    `${RUN}.initializingModules`,
    'kubelet: alive.imageGC.running',
  ]),
  built(
    'S236',
    'updateRuntimeUp',
    [`${RUN}.waitingForRuntime`, 'runtimeState: judging'],
    [`${kubelet}::without its network`, TESTS.runtimeState],
  ),
  planned('S237', 'cAdvisor starts', 'server', `${RUN}.runtimeDependentModules`),
  built(
    'S238',
    'container manager starts',
    [`${RUN}.runtimeDependentModules`, 'containerManager: running'],
    [boot, kubelet],
  ),
  planned('S239', 'eviction manager starts', 'pods'),
  planned('S240', 'container log manager starts', 'pods'),
  planned('S241', 'plugin manager starts', 'pods'),
  built('S242', 'channels of the sync loop', ['syncLoop: syncing', `${RUN}.synchronizing`], [observation, kubelet]),
  built('S243', 'changes of pods', 'src/machines/pods/pod-config.ts#differences', [TESTS.subsystems, TESTS.pod]),
  built('S244', 'housekeeping', 'src/machines/pods/sync-loop.ts#HOUSEKEEPING_MS', `${faults}::pods that nobody wants`),
];
