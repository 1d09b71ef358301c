/** Settings that no validation rule covers, and that subsystems refuse when they are created; with upstream's texts. */
import { describe, expect, it } from 'vitest';
import { decodeSource } from '../../../src/actors/host/configuration/configuration.ts';
import { parseCommandLine } from '../../../src/machines/configuration/flags/flags.ts';
import { resolveConfiguration } from '../../../src/machines/configuration/resolve.ts';

const HEAD =
  'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n' +
  'authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n';

function refusalOf(body: string): string | null {
  const line = parseCommandLine(['--config=/k.yaml'], { version: 'v1.36.2', raw: '' });
  if (line.kind !== 'run') throw new Error(line.kind);
  const files = { file: decodeSource('/k.yaml', Buffer.from(HEAD + body)), dropIns: null };
  const resolution = resolveConfiguration(line.flags, line.given, files, { cgroupVersion: 2 });
  return resolution.kind === 'failed' ? resolution.error : null;
}

const RUN = 'failed to run Kubelet: ';
const CREATE = `${RUN}failed to create kubelet: `;
const CURVES = 'failed to construct kubelet dependencies: curve preference ';
const GATES = 'failed to merge global and in-flight KubeletConfiguration while setting defaults, error: ';
const invalid = (...reasons: readonly string[]): string =>
  'failed to validate kubelet configuration, error: ' +
  `[${reasons.map((each) => `invalid configuration: ${each}`).join(', ')}], path: &TypeMeta{Kind:,APIVersion:,}`;
const STATIC = 'cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n';

describe('logging and tracing', () => {
  const tracing = (value: string, why: string) =>
    'failed to validate kubelet configuration, error: tracing.endpoint: Invalid value: ' +
    `${value}: ${why}, path: &TypeMeta{Kind:,APIVersion:,}`;

  it.each([
    [
      'logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}',
      'initialize logging: logging.format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature',
    ],
    [
      'tracing: {endpoint: "localhost:abc"}',
      tracing('"dns://localhost:abc"', 'parse "dns://localhost:abc": invalid port ":abc" after host'),
    ],
    ['tracing: {endpoint: "://x"}', tracing('"://x"', 'parse "://x": missing protocol scheme')],
    ['tracing: {endpoint: "a b"}', tracing('"dns://a b"', 'parse "dns://a b": invalid character " " in host name')],
    [
      'tracing: {endpoint: "1s://b"}',
      tracing('"1s://b"', 'parse "1s://b": first path segment in URL cannot contain colon'),
    ],
    ['tracing: {endpoint: "a%zz"}', tracing('"dns://a%zz"', 'parse "dns://a%zz": invalid URL escape "%zz"')],
  ])('%j', (body, error) => {
    expect(refusalOf(body)).toBe(error);
  });

  it.each(['localhost:4317', 'UNIX:///run/otel.sock', '[::1]:4317'])('takes the endpoint %s', (endpoint) => {
    expect(refusalOf(`tracing: {endpoint: "${endpoint}"}`)).toBeNull();
  });
});

describe('settings that parts refuse', () => {
  it.each([
    [
      'evictionMinimumReclaim: {nodefs.available: 0%}',
      `${CREATE}eviction percentage minimum reclaim nodefs.available must be positive: 0%`,
    ],
    [
      'evictionMinimumReclaim: {nodefs.available: "-1Gi"}',
      `${CREATE}negative eviction minimum reclaim specified for nodefs.available`,
    ],
    ['evictionHard: {memory.available: "-1024Mi"}', `${RUN}eviction threshold memory.available must be positive: -1Gi`],
    ['evictionHard: {memory.available: 0Mi}', `${RUN}eviction threshold memory.available must be positive: 0`],
    ['evictionHard: {memory.available: 1K}', `${RUN}unable to parse quantity's suffix`],
    [
      'kubeReserved: {memory: 1GB}',
      `${RUN}--kube-reserved value failed to parse: failed to parse quantity "1GB" for "memory" resource: ` +
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
    [
      'cpuManagerPolicyOptions: {full-pcpus-only: "true", a: b}',
      `${RUN}new none policy error: None policy: received unsupported options=map[a:b full-pcpus-only:true]`,
    ],
    [
      `${STATIC}cpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: "true", distribute-cpus-across-numa: "1"}`,
      `${RUN}new static policy error: static policy options prefer-align-cpus-by-uncorecache and ` +
        'distribute-cpus-across-numa can not be used at the same time',
    ],
    [
      'featureGates: {TopologyManagerPolicyOptions: false}\ntopologyManagerPolicyOptions: {b: "2", a: "1"}',
      `${GATES}cannot set feature gate TopologyManagerPolicyOptions to false, feature is locked to true`,
    ],
    [
      'containerLogMaxSize: "0.5"',
      `${CREATE}failed to initialize container log manager: failed to parse container log max size "0.5": ` +
        'invalid max log size',
    ],
    ['tlsCurvePreferences: [29, 0]', `${CURVES}0 is out of range (must be 1-65535)`],
    ['tlsCurvePreferences: [29, 23, 29]', 'failed to construct kubelet dependencies: duplicate curve preference 29'],
    ['tlsCurvePreferences: [1]', `${CURVES}1 is not supported by the current Go version`],
    [
      'allowedUnsafeSysctls: [kernel.semaphore]',
      `${CREATE}the sysctls "kernel.semaphore" are not known to be namespaced`,
    ],
    ...['kernel.shmfoo', 'kernel.msgx', 'net', 'fs.mqueue'].map((name) => [
      `allowedUnsafeSysctls: [${name}]`,
      `${CREATE}the sysctls "${name}" are not known to be namespaced`,
    ]),
    ...['kernel.', 'kernel.shm_', 'net'].map((name) => [
      `allowedUnsafeSysctls: ["${name}*"]`,
      `${CREATE}the sysctls "${name}" are not known to be namespaced`,
    ]),
    ['allowedUnsafeSysctls: [fs/file.max]', `${CREATE}the sysctls "fs.file/max" are not known to be namespaced`],
    ['containerRuntimeEndpoint: "http:foo"', `${RUN}protocol "http" not supported`],
    ['containerRuntimeEndpoint: "npipe:x"', `${RUN}protocol "npipe" not supported`],
    ['imageServiceEndpoint: "TCP:x"', `${RUN}only support unix socket endpoint`],
    [
      'reservedMemory: [{numaNode: 0, limits: {cpu: "0"}}, {numaNode: 0, limits: {cpu: "0"}}]',
      invalid(
        'the limit type "cpu" for NUMA node 0 is not supported, only [memory hugepages-<HugePageSize>] is accepted',
        'reserved memory may not be zero for NUMA node 0 and resource "cpu"',
        'the reserved memory has a duplicate value for NUMA node 0 and resource "cpu"',
      ),
    ],
    ['featureGates: {Zero: true, Nope: true}', `${GATES}unrecognized feature gate: Nope`],
    [
      'featureGates: {Nope: true, KubeletTracing: false}',
      `${GATES}[cannot set feature gate KubeletTracing to false, feature is locked to true, ` +
        'unrecognized feature gate: Nope]',
    ],
    [
      'allowedUnsafeSysctls: [Net.core]',
      `${CREATE}sysctl "Net.core" must have at most 253 characters and match regex ` +
        String.raw`([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`,
    ],
  ])('%j', (body, error) => {
    expect(refusalOf(body)).toBe(error);
  });

  it.each([
    'evictionHard: {nodefs.available: 5%%}',
    'evictionMinimumReclaim: {nodefs.available: 5%}',
    'containerLogMaxSize: "-1"',
    'tlsCurvePreferences: [4588, 29, 23]',
    'containerRuntimeEndpoint: "UNIX:///run/x.sock"',
    'containerRuntimeEndpoint: "unix:/run/x.sock"',
    'allowedUnsafeSysctls: [kernel.shm_rmid_forced, kernel.msgmni, "fs.mqueue.*", net.ipv4.conf.eth0/1.arp_filter]',
    'allowedUnsafeSysctls: [kernel.sem, "kernel.sem*", net/core/somaxconn, "net.*", "kernel.shm*"]',
  ])('takes %j', (body) => {
    expect(refusalOf(body)).toBeNull();
  });
});
