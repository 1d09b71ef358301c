/**
 * Validates settings that upstream reads only while it constructs its components.
 *
 * Upstream finds these errors late, after it has contacted runtime and host; here they are found before anything is
 * touched, in the same order, with the same text and exit status. Invariant: only errors of the configuration itself
 * are reported; others belong to the component that knows the host.
 */
import { sysctlPattern } from '../../model/allocation/sysctls.ts';
import { parseEvictionThresholds } from '../../model/configuration/eviction-thresholds.ts';
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import { authRefusal, parseNodeAddresses } from '../../model/configuration/run-refusals.ts';
import { tlsError } from '../../model/configuration/tls-options.ts';
import { parseBool, parseDecimal, quote } from '../../model/values/go-text.ts';
import { parseEndpoint } from '../../model/values/paths.ts';
import { isPlainInteger, parseQuantity } from '../../model/values/quantity.ts';
import { nanosecondsOf } from '../../model/values/time.ts';
import { type KubeletFlags, withServingCertificate } from '../flags/flags.ts';
import type { SettingsError } from './resource-managers.ts';
import { cpuManagerError, memoryManagerError, parseQosReserved, parseReservedResources } from './resource-managers.ts';
import type { ConfigurationHost } from './validation-components.ts';

type Check = (
  configuration: KubeletConfiguration,
  flags: KubeletFlags,
  host: ConfigurationHost,
) => string | SettingsError | null | undefined;

const SUPPORTED_TOPOLOGY_OPTIONS = ['prefer-closest-numa-nodes', 'max-allowable-numa-nodes'];
const FEWEST_NUMA_NODES = 8;
const LONGEST_SYSCTL = 253;
const SYSCTL_PATTERN = String.raw`([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`;
const SYSCTL = new RegExp(`^${SYSCTL_PATTERN}$`);
const STRATEGIES = ['Get', 'Cache', 'Watch'];

const lockFile: Check = (_configuration, { exitOnLockContention, lockFile: path }) =>
  exitOnLockContention && path === '' ? 'cannot exit on lock file contention: no lock file specified' : null;

const endpoints: Check = ({ containerRuntimeEndpoint, imageServiceEndpoint }) => {
  for (const endpoint of [containerRuntimeEndpoint, imageServiceEndpoint]) {
    const { error } = parseEndpoint(endpoint);
    if (error !== undefined) return error;
  }
  return null;
};

/** Blanks around the name are trimmed, and the rest must not be empty. */
const nodeName: Check = (_configuration, { hostnameOverride: name }) =>
  name !== '' && name.trim() === '' ? 'empty hostname is invalid' : null;

/** The self-signed certificate is the first use of the node's name. */
const nameInCertificate: Check = (configuration, flags, host) => {
  if (withServingCertificate(configuration, flags) === configuration) return null;
  const name = flags.hostnameOverride.trim().replaceAll('İ', 'i').toLowerCase();
  return /[^\0-\x7f]/.test(name)
    ? `unable to generate self signed cert: x509: ${quote(name)} cannot be encoded as an IA5String`
    : nodeName(configuration, flags, host);
};

const nameInTraces: Check = (configuration, flags, host) => {
  const error = configuration.tracing === undefined ? null : nodeName(configuration, flags, host);
  return typeof error === 'string' ? `could not determine hostname for tracer provider: ${error}` : null;
};

/** An error of the step that builds authentication and authorization. */
const auth: Check = ({ authentication, authorization }, { kubeconfig }) =>
  authRefusal({
    webhookAuthentication: authentication.webhook.enabled,
    authorizationMode: authorization.mode,
    hasClient: kubeconfig !== '',
  });

/** An error of the step that determines the addresses of the node. */
const nodeAddresses: Check = (_configuration, { nodeIP, cloudProvider: provider }) =>
  parseNodeAddresses(nodeIP, provider).error;

function reserved(field: 'kubeReserved' | 'systemReserved', flag: string): Check {
  return (configuration) => {
    const { error } = parseReservedResources(configuration[field]);
    return error === undefined ? null : `${flag} value failed to parse: ${error}`;
  };
}

const hardThresholds: Check = ({ evictionHard }, { experimentalAllocatableIgnoreEviction: ignored }) => {
  const onlyHard = { evictionSoft: {}, evictionSoftGracePeriod: {}, evictionMinimumReclaim: {} };
  return ignored ? null : parseEvictionThresholds({ ...onlyHard, evictionHard }).error;
};

const qosReserved: Check = (configuration) => {
  const { error } = parseQosReserved(configuration.qosReserved);
  return error === undefined ? null : `--qos-reserved value failed to parse: ${error}`;
};

const swap: Check = ({ memorySwap }, _flags, { cgroupVersion }) =>
  memorySwap.swapBehavior === 'LimitedSwap' && cgroupVersion === 1
    ? 'swap feature is enabled and LimitedSwap but it is only supported with cgroupv2'
    : null;

/** With the policy `none` upstream never reads the options. */
const topologyOptions: Check = ({ topologyManagerPolicy, topologyManagerPolicyOptions: options }) => {
  if (topologyManagerPolicy === 'none') return null;
  const unknown = Object.keys(options).find((name) => !SUPPORTED_TOPOLOGY_OPTIONS.includes(name));
  if (unknown !== undefined) return `unknown Topology Manager Policy option: ${quote(unknown)}`;
  const { 'prefer-closest-numa-nodes': closest, 'max-allowable-numa-nodes': most } = options;
  const flag = parseBool(closest ?? 'false');
  if (flag.error !== undefined) return `bad value for option "prefer-closest-numa-nodes": ${flag.error}`;
  if (most === undefined) return null;
  const parsed = parseDecimal(most);
  if (parsed.error !== undefined) {
    return `unable to convert policy option to integer "max-allowable-numa-nodes": ${parsed.error}`;
  }
  return parsed.value < FEWEST_NUMA_NODES
    ? `the minimum value of "max-allowable-numa-nodes" should not be less than ${FEWEST_NUMA_NODES}`
    : null;
};

const syncFrequency: Check = (configuration) => {
  const nanoseconds = nanosecondsOf(configuration.syncFrequency);
  return nanoseconds <= 0n ? `invalid sync frequency ${nanoseconds}` : null;
};

const cloudProvider: Check = (_configuration, { cloudProvider: name }) => {
  if (name === '' || name === 'external') return null;
  const warning =
    'WARNING: built-in cloud providers are disabled. Please set "--cloud-provider=external" and migrate to an ' +
    `external cloud controller manager for provider ${quote(name)}`;
  const error =
    `cloud provider ${quote(name)} was specified, but built-in cloud providers are disabled. ` +
    'Please set --cloud-provider=external and migrate to an external cloud provider';
  return { error, before: [warning] };
};

/** Without an API server there is nothing to watch. */
const changeDetection: Check = ({ configMapAndSecretChangeDetectionStrategy: mode }, { kubeconfig }) =>
  kubeconfig === '' || STRATEGIES.includes(mode) ? null : `unknown configmap and secret manager mode: ${mode}`;

const allThresholds: Check = (configuration) => parseEvictionThresholds(configuration).error;

/** Whole bytes; a negative size disables the rotation. */
const logSize: Check = ({ containerLogMaxSize: size }) => {
  const parsed = parseQuantity(size);
  const failed = `failed to initialize container log manager: failed to parse container log max size ${quote(size)}`;
  if (parsed.error !== undefined) return `${failed}: ${parsed.error}`;
  return isPlainInteger(size) ? null : `${failed}: invalid max log size`;
};

const oldestContainer: Check = (_configuration, { minimumContainerTTLDuration: age }) =>
  nanosecondsOf(age) < 0n ? `invalid minimum garbage collection age: ${age}` : null;

const unsafeSysctls: Check = ({ allowedUnsafeSysctls }) => {
  for (const name of allowedUnsafeSysctls) {
    if (name.length > LONGEST_SYSCTL || !SYSCTL.test(name)) {
      return `sysctl ${quote(name)} must have at most ${LONGEST_SYSCTL} characters and match regex ${SYSCTL_PATTERN}`;
    }
    const pattern = sysctlPattern(name);
    if (!pattern.isKnown) return `the sysctls ${quote(pattern.name)} are not known to be namespaced`;
  }
  return null;
};

const DEPENDENCIES = 'failed to construct kubelet dependencies: ';
const RUN = 'failed to run Kubelet: ';
const CREATE = `${RUN}failed to create kubelet: `;

const CHECKS: readonly (readonly [prefix: string, checks: readonly Check[]])[] = [
  [DEPENDENCIES, [nameInCertificate, tlsError, nameInTraces]],
  [
    RUN,
    [
      lockFile,
      nodeName,
      auth,
      endpoints,
      reserved('kubeReserved', '--kube-reserved'),
      reserved('systemReserved', '--system-reserved'),
      hardThresholds,
      qosReserved,
      swap,
      topologyOptions,
      cpuManagerError,
      (configuration) => memoryManagerError(configuration),
      nodeAddresses,
    ],
  ],
  [CREATE, [syncFrequency, cloudProvider, allThresholds, changeDetection, logSize, oldestContainer, unsafeSysctls]],
];

/** Errors that other steps of the start report themselves; reported here only if a later setting is invalid too. */
const CHECKS_OF_OTHER_STEPS: readonly Check[] = [auth, nodeAddresses];

/** The error of the first invalid setting, or null. */
export function settingsError(
  configuration: KubeletConfiguration,
  flags: KubeletFlags,
  host: ConfigurationHost,
): SettingsError | null {
  const refusals = CHECKS.flatMap(([prefix, checks]) =>
    checks.flatMap((check) => {
      const found = check(configuration, flags, host);
      if (found === null || found === undefined) return [];
      const { error, before } = typeof found === 'string' ? { error: found, before: [] } : found;
      return [{ error: `${prefix}${error}`, before, isOurs: !CHECKS_OF_OTHER_STEPS.includes(check) }];
    }),
  );
  return refusals.some(({ isOurs }) => isOurs) ? (refusals[0] ?? null) : null;
}
