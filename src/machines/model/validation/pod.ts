/**
 * Validates a new pod as the API server would (`ValidatePodCreate`), with its texts.
 *
 * Expects a pod with defaults. Invariant: a pod without errors can be turned into names, paths and CRI messages without
 * further checks; names that become parts of paths (name, namespace, uid) are safe there.
 */

import { isObject } from '../../../kernel/xstate.ts';
import type { Pod, PodSpec, ResourceList } from '../api/pod.ts';
import { isIpAddress, parseIp } from '../values/ip.ts';
import { refuseEphemeralContainers, validateContainers } from './containers.ts';
import {
  checked,
  errorsOf,
  type FieldError,
  forbidden,
  inclusiveRange,
  invalid,
  isDnsLabel,
  isDnsSubdomain,
  isDnsSubdomainWithUnderscore,
  isLongName,
  isQualifiedName,
  isSearchDomain,
  isShortName,
  oneOf,
  optionalOneOf,
  required,
} from './field.ts';
import { MAX_ANNOTATIONS_BYTES } from './metadata.ts';
import { claimsOf, NO_CLAIMS, validateAmounts, validateResources } from './resources.ts';
import { validateLabels, validateTolerations } from './scheduling.ts';
import { validatePodSecurityContext } from './security.ts';
import { validateVolumes } from './volumes.ts';

const MAX_INT32 = 2_147_483_647;
const MAX_NAMESERVERS = 3;
const MAX_SEARCHES = 32;
const MAX_SEARCH_CHARACTERS = 2_048;
/** A uid is the name of a folder, part of cgroup names, and the key of tables: not what every object has. */
const UID = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,126}[A-Za-z0-9])?$/;
const isUid = (uid: string): boolean => UID.test(uid) && !(uid in Object.prototype);

/** Without `asKubelet`, by the rules of 0.2.0. Rules for newer fields are in `features.ts`. */
export function validatePod({ metadata, spec }: Pod, asKubelet = true): FieldError[] {
  return [...validateMetadata(metadata, 'metadata', asKubelet), ...validateSpec(spec, 'spec', asKubelet)];
}

function validateMetadata(
  { name, namespace, uid, labels = {}, annotations = {} }: Pod['metadata'],
  path: string,
  asKubelet: boolean,
) {
  const size = Object.entries(annotations).reduce((sum, [key, value]) => sum + key.length + value.length, 0);
  const uidForm = "must consist of alphanumeric characters, '-', '_' or '.', and be no more than 128 characters";
  return errorsOf(
    checked(`${path}.name`, name, asKubelet ? isLongName : isDnsSubdomain),
    checked(`${path}.namespace`, namespace, asKubelet ? isShortName : isDnsLabel),
    !isUid(uid) && invalid(`${path}.uid`, uid, uidForm),
    validateLabels(labels, `${path}.labels`),
    Object.keys(annotations).flatMap((key) => checked(`${path}.annotations`, key.toLowerCase(), isQualifiedName)),
    !asKubelet &&
      size > MAX_ANNOTATIONS_BYTES &&
      `${path}.annotations: Too long: may not be more than ${MAX_ANNOTATIONS_BYTES} bytes`,
  );
}

function validateSpec(spec: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  const { activeDeadlineSeconds: deadline, terminationGracePeriodSeconds: grace = 0 } = spec;
  return errorsOf(
    validateVolumes(spec.volumes ?? [], `${path}.volumes`, asKubelet),
    validateContainers(spec, path, asKubelet),
    refuseEphemeralContainers(spec, path),
    spec.resources &&
      !(asKubelet && spec.os?.name === 'windows') &&
      validateResources(spec.resources, `${path}.resources`, asKubelet ? ofPod(spec) : null),
    oneOf(`${path}.restartPolicy`, spec.restartPolicy, ['Always', 'OnFailure', 'Never']),
    grace < 0 && invalid(`${path}.terminationGracePeriodSeconds`, grace, 'must be greater than or equal to 0'),
    deadline !== undefined &&
      (deadline < 1 || deadline > MAX_INT32) &&
      invalid(`${path}.activeDeadlineSeconds`, deadline, inclusiveRange(1, MAX_INT32)),
    validateLabels(spec.nodeSelector ?? {}, `${path}.nodeSelector`),
    validatePodSecurityContext(spec, `${path}.securityContext`, asKubelet),
    validateDns(spec, path, asKubelet),
    validateNames(spec, path, asKubelet),
    (spec.schedulingGates ?? []).length > 0 &&
      spec.nodeName &&
      forbidden(`${path}.nodeName`, 'cannot be set until all schedulingGates have been cleared'),
    validateHostNamespaces(spec, path, asKubelet),
    validateTolerations(spec.tolerations ?? [], `${path}.tolerations`, asKubelet),
    validateHostAliases(spec, `${path}.hostAliases`, asKubelet),
    optionalOneOf(`${path}.preemptionPolicy`, spec.preemptionPolicy, ['PreemptLowerPriority', 'Never']),
    spec.overhead && validateOverhead(spec.overhead, `${path}.overhead`, asKubelet),
    spec.os && !asKubelet && validateOs(spec.os.name, `${path}.os.name`),
    (spec.readinessGates ?? []).flatMap(({ conditionType }, at) =>
      checked(`${path}.readinessGates[${at}].conditionType`, conditionType, isQualifiedName),
    ),
  );
}

const validateOverhead = (overhead: ResourceList, path: string, asKubelet: boolean): FieldError[] =>
  asKubelet
    ? validateResources({ limits: overhead }, path, { level: 'container', claims: NO_CLAIMS })
    : validateAmounts(overhead, path);

const ofPod = (spec: PodSpec) => ({ level: 'pod', claims: claimsOf(spec) }) as const;

function validateDns(spec: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  const { dnsConfig, dnsPolicy } = spec;
  const { nameservers = [], searches = [], options = [] } = dnsConfig ?? {};
  const place = `${path}.dnsConfig`;
  const isNone = dnsPolicy === 'None';
  if (asKubelet && isNone && dnsConfig && nameservers.length === 0) {
    return [required(`${place}.nameservers`, 'must provide at least one DNS nameserver when `dnsPolicy` is None')];
  }
  return errorsOf(
    oneOf(`${path}.dnsPolicy`, dnsPolicy, ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None']),
    isNone && !dnsConfig && required(place, 'must provide `dnsConfig` when `dnsPolicy` is None'),
    isNone &&
      dnsConfig &&
      nameservers.length === 0 &&
      required(`${place}.nameservers`, 'must provide at least one DNS nameserver when `dnsPolicy` is None'),
    nameservers.length > MAX_NAMESERVERS &&
      invalid(`${place}.nameservers`, nameservers, `must not have more than ${MAX_NAMESERVERS} nameservers`),
    nameservers.flatMap((address, at) => validateIp(address, `${place}.nameservers[${at}]`, asKubelet)),
    searches.length > MAX_SEARCHES &&
      invalid(`${place}.searches`, searches, `must not have more than ${MAX_SEARCHES} search paths`),
    searches.join(' ').length > MAX_SEARCH_CHARACTERS &&
      invalid(
        `${place}.searches`,
        searches,
        `must not have more than ${MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list`,
      ),
    searches.flatMap((search, at) =>
      search === '.'
        ? []
        : checked(
            `${place}.searches[${at}]`,
            search.replace(/\.$/, ''),
            asKubelet ? isSearchDomain : isDnsSubdomainWithUnderscore,
          ),
    ),
    options.flatMap(({ name }, at) => (name ? [] : [required(`${place}.options[${at}]`, 'must not be empty')])),
  );
}

function validateIp(address: string, path: string, asKubelet: boolean): FieldError[] {
  const isMapped = address.includes(':') && parseIp(address)?.family === 4;
  if (!isIpAddress(address)) {
    return [invalid(path, address, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)')];
  }
  if (!asKubelet) return [];
  return errorsOf(
    /(^|[.:])0\d+(\.|$)/.test(address) && address.includes('.') && invalid(path, address, 'must not have leading 0s'),
    isMapped && invalid(path, address, 'must not be an IPv4-mapped IPv6 address'),
  );
}

/** Host names of the pod, and names of the objects that it refers to. */
function validateNames(spec: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  const subdomains = [
    'serviceAccountName',
    'nodeName',
    'priorityClassName',
    'runtimeClassName',
    'hostnameOverride',
  ] as const;
  const labels = ['hostname', 'subdomain'] as const;
  return [
    ...labels.flatMap((field) =>
      spec[field] ? checked(`${path}.${field}`, spec[field], asKubelet ? isShortName : isDnsLabel) : [],
    ),
    ...subdomains.flatMap((field) => {
      const name = spec[field];
      const mayBeEmpty = !asKubelet || (field !== 'runtimeClassName' && field !== 'hostnameOverride');
      if (name === undefined || (name === '' && mayBeEmpty)) return [];
      return checked(`${path}.${field}`, name, asKubelet ? isLongName : isDnsSubdomain);
    }),
  ];
}

function validateHostNamespaces(spec: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  const { hostUsers, hostNetwork, hostPID, hostIPC, shareProcessNamespace } = spec;
  const withoutHostUsers = `when \`${asKubelet ? 'hostUsers' : 'pod.Spec.HostUsers'}\` is false`;
  const place = asKubelet ? `${path}.securityContext` : path;
  const shared = 'ShareProcessNamespace and HostPID cannot both be enabled';
  return errorsOf(
    hostUsers === false && hostNetwork && forbidden(`${path}.hostNetwork`, withoutHostUsers),
    hostUsers === false && hostPID && forbidden(`${path}.HostPID`, withoutHostUsers),
    hostUsers === false && hostIPC && forbidden(`${path}.HostIPC`, withoutHostUsers),
    shareProcessNamespace && hostPID && invalid(`${place}.shareProcessNamespace`, true, shared),
  );
}

function validateHostAliases({ hostAliases = [] }: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  return hostAliases.flatMap(({ ip, hostnames = [] }, at) => [
    ...validateIp(ip, `${path}[${at}].ip`, asKubelet),
    ...hostnames.flatMap((name, index) =>
      checked(`${path}[${at}].hostnames[${index}]`, name, asKubelet ? isLongName : isDnsSubdomain),
    ),
  ]);
}

function validateOs(name: string, path: string): FieldError[] {
  if (name === 'windows') return [forbidden(path, 'this node runs linux')];
  return oneOf(path, name, ['linux', 'windows']);
}

/** Containers of one pod, including init and ephemeral ones: far more than a machine can run. */
export const POD_CONTAINERS_MAX = 2_000;
/** Entries in all lists and maps of one pod: fields, variables, ports, volumes, labels. */
export const POD_VALUES_MAX = 50_000;

/**
 * Why a document is too large to be a pod of this node; `null` if it is not.
 *
 * Upstream needs no such limits, because the API server rejects requests of more than 3 MiB. Here the other pods wait
 * while one pod is handled, so the cost of each is limited. Invariant: the cost of the check is bounded by the limit.
 */
export function sizeProblem(document: unknown, countsEphemeral = true): string | null {
  const spec = isObject(document) && isObject(document['spec']) ? document['spec'] : {};
  const lists = [spec['containers'], spec['initContainers'], countsEphemeral ? spec['ephemeralContainers'] : []];
  const containers = lists.reduce((sum: number, list) => sum + lengthOf(list), 0);
  if (containers > POD_CONTAINERS_MAX) {
    const detail = `this node takes pods of at most ${POD_CONTAINERS_MAX} containers, init containers among them`;
    return `spec.containers: Too many: ${containers}: ${detail}`;
  }
  if (!hasMoreValues(document, POD_VALUES_MAX)) return null;
  return `the pod has more than ${POD_VALUES_MAX} fields and entries of lists, the most that this node takes`;
}

const lengthOf = (value: unknown): number => (Array.isArray(value) ? value.length : 0);

function hasMoreValues(document: unknown, limit: number): boolean {
  const open: unknown[] = [document];
  for (let seen = 0; open.length > 0; seen++) {
    if (seen + open.length > limit) return true;
    const value = open.pop();
    if (typeof value !== 'object' || value === null) continue;
    const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
    if (seen + open.length + inside.length > limit) return true;
    for (const each of inside) open.push(each);
  }
  return false;
}
