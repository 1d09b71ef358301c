/** Rows S001 to S051: the process, its command line, its configuration, and the first steps of `run()`. */
import { built, instead, type Row, TESTS } from './row.ts';

const { boot, failures, golden, kubelet, corpus, flags, resolve, daemon } = TESTS;
const CONFIGURATION = 'src/machines/configuration';
const LOADING = 'kubelet: alive.startup.command.loadingConfiguration';
const RUNTIME_OWNS = 'the container runtime owns this; the flag is refused and the hint says so';

export const COMMAND_ROWS: readonly Row[] = [
  built('S001', 'main()', ['src/bin/commands/main.ts#main', 'src/bin/daemon.ts#runDaemon'], daemon),
  built('S002', 'exit code 1 on failure', ['src/bin/daemon.ts#exitCode', 'kubelet: failed'], [failures, golden]),
  built('S003', 'log flush', 'src/actors/log/logger.ts#logRecords', `${failures}::command failed`),
  built('S004', 'seed of chance', 'src/kernel/purity.ts#SeededRandom', TESTS.random),
  instead('S005', 'GOMAXPROCS', 'one event loop decides; calls of the world run beside it without a setting'),
  built('S006', 'flag-name normalisation', `${CONFIGURATION}/flags/flags.ts#parseCommandLine`, [flags, corpus]),
  built(
    'S007',
    'own flag parsing',
    ['configLoader: parsingFlags', `${CONFIGURATION}/flags/flags.ts#parseCommandLine`],
    flags,
  ),
  built('S008', 'flag errors are returned', `${CONFIGURATION}/flags/flags.ts#parseCommandLine`, [
    `${failures}::--nope`,
    corpus,
  ]),
  built('S009', 'non-flag arguments', `${CONFIGURATION}/flags/flags.ts#parseCommandLine`, `${failures}::positional`),
  built('S010', '--help', `${CONFIGURATION}/flags/help.ts#helpText`, `${flags}::help and version`),
  built('S011', '--version', `${CONFIGURATION}/flags/flags.ts#VersionText`, `${flags}::prints the version`),
  built('S012', 'KubeletFlags', `${CONFIGURATION}/flags/flags.ts#KubeletFlags`, `${flags}::own flags of a node`),
  built('S013', 'KubeletConfiguration', `${CONFIGURATION}/fields/defaults.ts#applyDefaults`, [resolve, corpus]),
  built('S014', 'KubeletServer', 'src/machines/startup/configuration/config-loader.ts#LoadedConfiguration', boot),
  built('S015', 'flag groups', `${CONFIGURATION}/flags/flag-table.ts#FLAGS`, `${flags}::lists every flag once`),
  built('S016', 'feature gates from flags', `${CONFIGURATION}/fields/feature-gates.ts#decideFeatures`, [
    resolve,
    golden,
  ]),
  built(
    'S017',
    'gate defaults',
    `${CONFIGURATION}/fields/feature-gate-table.ts#FEATURE_GATES`,
    `${resolve}::feature gates`,
  ),
  built('S018', 'ValidateKubeletFlags', 'src/machines/model/values/labels.ts#nodeLabelsError', corpus),
  instead('S019', 'pod-infra-container-image', RUNTIME_OWNS, 'pod-infra-container-image'),
  built('S020', '--config', ['configLoader: readingFile', 'host.readConfiguration'], [TESTS.configuration, golden]),
  built('S021', 'flags win over the file', `${CONFIGURATION}/flags/flags.ts#applyFlags`, `${resolve}::precedence`),
  built('S022', 'ValidateKubeletConfiguration', `${CONFIGURATION}/validation/validation.ts#validateConfiguration`, [
    corpus,
    golden,
  ]),
  built(
    'S023',
    'KubeletCgroups within KubeReservedCgroup',
    'src/machines/startup/command.ts#isOutsideReserved',
    `${failures}::not within KubeReservedCgroup`,
  ),
  instead('S024', 'dynamic configuration', 'the gate is unknown, the flag is refused', 'dynamic-config-dir'),
  built(
    'S025',
    'log set up after the configuration',
    `${CONFIGURATION}/validation/validation-components.ts#validateLogging`,
    corpus,
  ),
  built('S026', 'UnsecuredDependencies', 'src/machines/model/configuration/tls-options.ts#tlsError', corpus),
  built('S027', 'dependencies', 'src/machines/startup/setup.ts#kubeletSetup', `${boot}::starts every subsystem`),
  built(
    'S028',
    'checkPermissions',
    ['kubelet: alive.startup.command.checkingPermissions', 'host.permissions'],
    failures,
  ),
  built('S029', 'signal context', ['kubelet: stopping', 'src/bin/daemon.ts#onSignals'], `${kubelet}::SIGTERM`),
  built(
    'S030',
    'masked configuration',
    [`${CONFIGURATION}/fields/decode.ts#toMasked`, 'kubelet: alive.startup.command.checkingPermissions'],
    `${boot}::says its configuration`,
  ),
  built('S031', 'call Run', 'kubelet: alive.startup.run', [boot, failures]),
  instead('S032', 'ContainerRuntime=docker', 'the runtime is always CRI', 'container-runtime'),
  instead('S033', 'DockerEndpoint', 'the runtime is always CRI', 'docker-endpoint'),
  instead('S034', 'DockershimRootDirectory', 'the runtime is always CRI', 'experimental-dockershim'),
  instead(
    'S035',
    'PodSandboxImage',
    `${RUNTIME_OWNS}; images that it pins are never collected`,
    'pod-infra-container-image',
  ),
  instead('S036', 'ImagePullProgressDeadline', RUNTIME_OWNS, 'image-pull-progress-deadline'),
  instead('S037', 'CNI directories', RUNTIME_OWNS, ['cni-bin-dir', 'cni-conf-dir', 'cni-cache-dir']),
  built('S038', 'options tree', `${CONFIGURATION}/resolve.ts#resolveConfiguration`, corpus),
  instead('S039', 'API server settings of v1.5', 'the hints name --kubeconfig', [
    'api-servers',
    'auth-path',
    'require-kubeconfig',
  ]),
  built('S040', 'version said first', 'kubelet: alive.startup.run.begun', `${boot}::the order of the documents`),
  instead('S041', 'initForOS', 'nothing to do on Linux, as upstream; no other system is supported', 'windows-service'),
  built('S042', 'error of Run', 'src/machines/startup/setup.ts#failing', `${failures}::failed to run Kubelet`),
  built('S043', 'dependencies made when there are none', 'src/machines/startup/setup.ts#kubeletSetup', boot),
  built('S044', 'gates applied again', `${CONFIGURATION}/resolve.ts#settle`, corpus),
  built(
    'S045',
    'ValidateKubeletServer',
    [LOADING, `${CONFIGURATION}/resolve.ts#resolveConfiguration`],
    [corpus, golden],
  ),
  built('S046', 'MemoryQoS on cgroup v1', 'kubelet: alive.startup.run.containerManager', `${boot}::MemoryQoS`),
  built(
    'S047',
    'contention needs a lock file',
    `${CONFIGURATION}/validation/settings.ts#lockFile`,
    `${failures}::contention without a lock`,
  ),
  built(
    'S048',
    '--lock-file',
    ['kubelet: alive.startup.run.lockFile', 'host.acquireLock'],
    [TESTS.lockFile, TESTS.lock],
  ),
  built('S049', 'contention watched', ['lockFile: held.watching', 'host.watchLock'], [kubelet, TESTS.lockFile]),
  built(
    'S050',
    'configz',
    ['src/actors/server/endpoints/pods.ts#configzEndpoint', `${CONFIGURATION}/fields/decode.ts#toVersioned`],
    [TESTS.requested, corpus],
  ),
  instead('S051', 'hidden metrics', 'no metric of this node is hidden; the version is validated as upstream does'),
];
