/** Command lines and files beside the recorded cases, and the last line of a kubelet for each. */
import { describe, expect, it } from 'vitest';
import { decodeSource } from '../../../src/actors/host/configuration/configuration.ts';
import { toServed } from '../../../src/machines/configuration/fields/decode.ts';
import { parseCommandLine } from '../../../src/machines/configuration/flags/flags.ts';
import { resolveConfiguration } from '../../../src/machines/configuration/resolve.ts';
import type { KubeletConfiguration } from '../../../src/machines/model/configuration/fields.ts';

const META = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';
const HEAD = `${META}authentication: {webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n`;

interface Given {
  readonly argv?: readonly string[];
  readonly dropIn?: string;
}

function resolve(text: string, { argv = [], dropIn }: Given = {}) {
  const line = parseCommandLine(['--config=/k.yaml', ...argv], { version: 'v1.36.2', raw: '' });
  if (line.kind !== 'run') throw new Error(line.kind === 'error' ? line.error : line.kind);
  const decode = (body: string) => decodeSource('/k.yaml', Buffer.from(body));
  const dropIns = dropIn === undefined ? null : { kind: 'files' as const, files: [decode(META + dropIn)] };
  return resolveConfiguration(line.flags, line.given, { file: decode(text), dropIns }, { cgroupVersion: 1 });
}

function refusalOf(body: string, given?: Given): string | null {
  const resolution = resolve(`${HEAD}failCgroupV1: false\n${body}`, given);
  return resolution.kind === 'failed' ? resolution.error : null;
}

function configzOf(body: string, given?: Given): unknown {
  const resolution = resolve(`${HEAD}failCgroupV1: false\n${body}`, given);
  if (resolution.kind === 'failed') throw new Error(resolution.error);
  return toServed(resolution.configuration);
}

const FILE =
  'failed to load kubelet config file, path: /k.yaml, error: failed to load Kubelet config file /k.yaml, error ' +
  'failed to decode: json: cannot unmarshal ';
const RUN = 'failed to run Kubelet: ';
const CREATE = `${RUN}failed to create kubelet: `;
const LOG_SIZE = `${CREATE}failed to initialize container log manager: failed to parse container log max size `;
const STATIC = 'cpuManagerPolicy: static\nkubeReserved: {cpu: "1"}\n';
const OPTIONS = `${RUN}new static policy error: `;
const PANIC = 'failed to merge global and in-flight KubeletConfiguration while setting defaults, error: ';
const KUBECONFIG = ['--kubeconfig=/k'];
const invalid = (why: string) =>
  `failed to validate kubelet configuration, error: ${why}, path: &TypeMeta{Kind:,APIVersion:,}`;
const oneInvalid = (why: string) => invalid(`invalid configuration: ${why}`);

describe('a kubelet ends with this sentence', () => {
  it.each<[body: string, error: string, given?: Given]>([
    [
      'maxPods: 9007199254740993',
      `${FILE}number 9007199254740993 into Go struct field KubeletConfiguration.maxPods of type int32`,
    ],
    [
      'podPidsLimit: 18446744073709551616',
      `${FILE}number 18446744073709552000 into Go struct field KubeletConfiguration.podPidsLimit of type int64`,
    ],
    [
      'logging: {vmodule: 12}',
      `${FILE}number into Go struct field LoggingConfiguration.logging.vmodule of type v1.VModuleConfiguration`,
    ],
    [
      'logging: {options: {text: {splitStream: []}}}',
      `${FILE}array into Go struct field ` +
        'TextOptions.logging.options.text.OutputRoutingOptions.splitStream of type bool',
    ],
    [
      'qosReserved: {memory: 1.5%}',
      `${RUN}--qos-reserved value failed to parse: failed to parse percentage "1.5%" for ` +
        `"memory" resource: invalid number in percentage '1.5%'`,
    ],
    ['memoryManagerPolicy: BestEffort', `${RUN}policy "BestEffort" is not available for platform "linux"`],
    ['containerLogMaxSize: 3000m', `${LOG_SIZE}"3000m": invalid max log size`],
    ['containerLogMaxSize: "1.0"', `${LOG_SIZE}"1.0": invalid max log size`],
    [
      'userNamespaces: {idsPerPod: 4294967296}',
      oneInvalid('userNamespaces.idsPerPod must not be more than 4294967295'),
    ],
    [
      'userNamespaces: {idsPerPod: 1}\nsingleProcessOOMKill: false',
      oneInvalid('singleProcessOOMKill must not be explicitly set to false when using cgroup v1'),
    ],
    [
      'memoryThrottlingFactor: 1000000',
      oneInvalid('memoryThrottlingFactor 1e+06 must be greater than 0 and less than or equal to 1.0'),
    ],
    [
      'featureGates: {CPUManagerPolicyBetaOptions: false}\n' +
        `${STATIC}cpuManagerPolicyOptions: {distribute-cpus-across-numa: "true"}`,
      `${OPTIONS}CPU Manager Policy Beta-level Options not enabled, but option "distribute-cpus-across-numa" provided`,
    ],
    [
      'featureGates: {CPUManagerPolicyAlphaOptions: true}\ntopologyManagerPolicy: single-numa-node\n' +
        `${STATIC}cpuManagerPolicyOptions: {align-by-socket: "true"}`,
      `${OPTIONS}Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option`,
    ],
    [
      'featureGates: {AtomicFIFO: false, StaleControllerConsistencyJob: false, ' +
        'StaleControllerConsistencyReplicaSet: false, StaleControllerConsistencyStatefulSet: false}',
      `${PANIC}StaleControllerConsistencyDaemonSet is enabled, but depends on features that are disabled: [AtomicFIFO]`,
    ],
    [
      'featureGates: {GitRepoVolumeDriver: true}',
      `${PANIC}cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false`,
    ],
    ['', `${RUN}no authorization mode specified`, { argv: ['--authorization-mode=', '--sync-frequency=-1s'] }],
    ['syncFrequency: -1s', `${RUN}unknown authorization mode X`, { argv: ['--authorization-mode=X'] }],
    [
      'syncFrequency: -1s',
      `${RUN}bad --node-ip "1.1.1.1,2.2.2.2": must contain either a single IP or a dual-stack pair of IPs`,
      { argv: ['--node-ip=1.1.1.1,2.2.2.2'] },
    ],
    ['', `${CREATE}invalid minimum garbage collection age: -1s`, { argv: ['--minimum-container-ttl-duration=-1s'] }],
    [
      'configMapAndSecretChangeDetectionStrategy: Never',
      `${CREATE}unknown configmap and secret manager mode: Never`,
      { argv: KUBECONFIG },
    ],
    ['serverTLSBootstrap: true', `${RUN}empty hostname is invalid`, { argv: ['--hostname-override= '] }],
    [
      '',
      'failed to construct kubelet dependencies: unable to generate self signed cert: ' +
        'x509: "ü" cannot be encoded as an IA5String',
      { argv: ['--hostname-override=Ü'] },
    ],
    [
      '',
      `${RUN}new none policy error: None policy: received unsupported options=map[a:b,c=d]`,
      { argv: ['--cpu-manager-policy-options=a=b,c=d'] },
    ],
    [
      '',
      'initialize logging: logging.options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled',
      { argv: ['--log-json-info-buffer-size=1'] },
    ],
  ])('%j', (body, error, given) => {
    expect(refusalOf(body, given)).toBe(error);
  });

  it('names a JSON number as it is written', () => {
    const text = '{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":-1e0}';
    const wanted = `${FILE}number -1e0 into Go struct field KubeletConfiguration.maxPods of type int32`;
    expect(resolve(text)).toMatchObject({ error: wanted });
  });

  it('names the cgroup version alone', () => {
    const why =
      'kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and ' +
      'will be removed in a future release';
    expect(resolve(`${HEAD}singleProcessOOMKill: false\n`)).toMatchObject({ error: invalid(why) });
  });

  it('warns of a graduated gate before it refuses another', () => {
    const { kind, warnings } = resolve(HEAD, { argv: ['--feature-gates=NodeSwap=false,SidecarContainers=true'] });
    expect(kind).toBe('failed');
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('featureGate="SidecarContainers" value=true');
  });
});

describe('a kubelet runs with', () => {
  it.each<[body: string, configz: object, given?: Given]>([
    ['podPidsLimit: 9223372036854775807', { podPidsLimit: Number(2n ** 63n - 1n) }],
    ['evictionHard: {memory.available: "NaN%", nodefs.available: 0x1p-2%}', {}],
    [
      'imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [a]',
      { preloadedImagesVerificationAllowlist: ['a'] },
    ],
    [
      'reservedMemory: [{numaNode: 0, limits: {memory: "+1Gi", hugepages-2Mi: 1n}}]',
      { reservedMemory: [{ numaNode: 0, limits: { memory: '+1Gi', 'hugepages-2Mi': '1m' } }] },
    ],
    ['', {}, { dropIn: 'reservedMemory: [{numaNode: 1, limits: {memory: null}}]' }],
  ])('%j', (body, configz, given) => {
    expect(configzOf(body, given)).toMatchObject(configz);
  });
});

it('a kubelet with CPUs reserved by name shows their number in place of reserved CPU time that it was given', () => {
  const reserved = 'reservedSystemCPUs: "0-1"\nkubeReserved: {cpu: 500m, memory: 1Gi}\n';
  const both = configzOf(`${reserved}systemReserved: {cpu: 300m, memory: 2Gi}\n`) as KubeletConfiguration;
  expect([both.kubeReserved, both.systemReserved]).toEqual([{ memory: '1Gi' }, { cpu: '2', memory: '2Gi' }]);
  expect(configzOf(reserved)).not.toHaveProperty('systemReserved');
});

it('reserved memory without limits has null in their place', () => {
  expect(configzOf('reservedMemory: [{numaNode: 5}]')).toMatchObject({
    reservedMemory: [{ numaNode: 5, limits: null }],
  });
});
