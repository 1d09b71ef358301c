/**
 * Validates what only a scheduler reads: affinity, spreading over a topology, gates, groups.
 *
 * Nodes of 0.2.0 did not look at it, so a journal of theirs is replayed without the rules.
 */
import type { PodSpec } from '../api/pod.ts';
import {
  checked,
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  isLongName,
  isQualifiedName,
  isShortName,
  notSupported,
  repeatedAt,
  required,
} from './field.ts';
import {
  type LabelSelector,
  type NodeSelector,
  validateLabelSelector,
  validateNodeSelector,
  validateNodeTerm,
} from './selectors.ts';

type Affinity = NonNullable<PodSpec['affinity']>;
type PodAffinity = Affinity['podAffinity'];
type NodeAffinity = NonNullable<Affinity['nodeAffinity']>;
type Term = NonNullable<NonNullable<PodAffinity>['requiredDuringSchedulingIgnoredDuringExecution']>[number];
type Spread = NonNullable<PodSpec['topologySpreadConstraints']>[number];

const REQUIRED = 'requiredDuringSchedulingIgnoredDuringExecution';
const PREFERRED = 'preferredDuringSchedulingIgnoredDuringExecution';
const EMPTY = 'can not be empty';

export function validateScheduling(spec: PodSpec, path: string): FieldError[] {
  const { affinity = {}, topologySpreadConstraints: spreads = [], schedulingGates: gates = [], schedulingGroup } = spec;
  const repeated = repeatedAt(gates.map(({ name }) => name));
  return [
    ...(affinity.nodeAffinity ? validateNodeAffinity(affinity.nodeAffinity, `${path}.affinity.nodeAffinity`) : []),
    ...validatePodAffinity(affinity.podAffinity, `${path}.affinity.podAffinity`),
    ...validatePodAffinity(affinity.podAntiAffinity, `${path}.affinity.podAntiAffinity`),
    ...gates.flatMap(({ name }, at) => [
      ...checked(`${path}.schedulingGates[${at}]`, name, isQualifiedName),
      ...(repeated.has(at) ? [duplicate(`${path}.schedulingGates[${at}]`, name)] : []),
    ]),
    ...spreads.flatMap((each, at) => validateSpread(each, `${path}.topologySpreadConstraints[${at}]`)),
    ...validateDistinct(spreads, `${path}.topologySpreadConstraints`),
    ...(schedulingGroup ? validateGroup(schedulingGroup.podGroupName, `${path}.schedulingGroup.podGroupName`) : []),
  ];
}

const validateGroup = (name: string | undefined, path: string): FieldError[] =>
  name === undefined ? [invalid(path, null, 'must specify one of: `podGroupName`')] : checked(path, name, isLongName);

const validateWeight = (weight: number, path: string): FieldError[] =>
  weight >= 1 && weight <= 100 ? [] : [invalid(`${path}.weight`, weight, 'must be in the range 1-100')];

function validateNodeAffinity(affinity: NodeAffinity, path: string): FieldError[] {
  const wanted: NodeSelector | undefined = affinity[REQUIRED];
  return [
    ...(wanted ? validateNodeSelector(wanted, `${path}.${REQUIRED}`) : []),
    ...(affinity[PREFERRED] ?? []).flatMap(({ weight, preference }, at) => [
      ...validateWeight(weight, `${path}.${PREFERRED}[${at}]`),
      ...validateNodeTerm(preference, `${path}.${PREFERRED}[${at}].preference`, { checksValues: false }),
    ]),
  ];
}

function validatePodAffinity(affinity: PodAffinity, path: string): FieldError[] {
  return [
    ...(affinity?.[REQUIRED] ?? []).flatMap((term, at) => validateTerm(term, `${path}.${REQUIRED}[${at}]`)),
    ...(affinity?.[PREFERRED] ?? []).flatMap(({ weight, podAffinityTerm }, at) => [
      ...validateWeight(weight, `${path}.${PREFERRED}[${at}]`),
      ...validateTerm(podAffinityTerm, `${path}.${PREFERRED}[${at}].podAffinityTerm`),
    ]),
  ];
}

function validateTerm(term: Term, path: string): FieldError[] {
  const { labelSelector, namespaceSelector, namespaces = [], matchLabelKeys, mismatchLabelKeys, topologyKey } = term;
  return [
    ...validateLabelSelector(labelSelector, `${path}.labelSelector`),
    ...validateLabelSelector(namespaceSelector, `${path}.namespaceSelector`),
    ...namespaces.flatMap((name) => checked(`${path}.namespace`, name, isShortName)),
    ...validateLabelKeys({ matchLabelKeys, mismatchLabelKeys, labelSelector }, path),
    ...(topologyKey === '' ? [required(`${path}.topologyKey`, EMPTY)] : []),
    ...checked(`${path}.topologyKey`, topologyKey, isQualifiedName),
  ];
}

interface LabelKeys {
  readonly matchLabelKeys: readonly string[] | undefined;
  readonly mismatchLabelKeys?: readonly string[] | undefined;
  readonly labelSelector: LabelSelector | undefined;
}

/** Labels of the pod itself that a selector is extended by. */
function validateLabelKeys({ matchLabelKeys = [], mismatchLabelKeys = [], labelSelector }: LabelKeys, path: string) {
  const lists = { matchLabelKeys, mismatchLabelKeys };
  const mismatched = new Set(mismatchLabelKeys);
  return [
    ...Object.entries(lists).flatMap(([field, keys]) => {
      if (keys.length === 0) return [];
      const place = `${path}.${field}`;
      if (labelSelector === undefined) return [forbidden(place, 'must not be specified when labelSelector is not set')];
      return keys.flatMap((key, at) => checked(`${place}[${at}]`, key, isQualifiedName));
    }),
    ...validateSelectedTwice(matchLabelKeys, labelSelector, path),
    ...matchLabelKeys.flatMap((key, at) =>
      mismatched.has(key)
        ? [invalid(`${path}.matchLabelKeys[${at}]`, key, 'exists in both matchLabelKeys and mismatchLabelKeys')]
        : [],
    ),
  ];
}

/** The selector of a new pod is not yet extended, so a key of it that is there twice is written twice. */
function validateSelectedTwice(keys: readonly string[], selector: LabelSelector | undefined, path: string) {
  const places = new Map(keys.map((key, at) => [key, at]));
  const selected = new Set(Object.keys(selector?.matchLabels ?? {}));
  return (selector?.matchExpressions ?? []).flatMap(({ key }) => {
    const at = places.get(key);
    const isTwice = at !== undefined && selected.has(key);
    selected.add(key);
    return isTwice ? [invalid(`${path}[${at}]`, key, 'exists in both matchLabelKeys and labelSelector')] : [];
  });
}

const ACTIONS = ['DoNotSchedule', 'ScheduleAnyway'];
const POLICIES = ['Honor', 'Ignore'];

function validateSpread(spread: Spread, path: string): FieldError[] {
  const { maxSkew, topologyKey, whenUnsatisfiable: action, minDomains, matchLabelKeys, labelSelector } = spread;
  const policies = ['nodeAffinityPolicy', 'nodeTaintsPolicy'] as const;
  const positive = 'must be greater than zero';
  const only = `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${action}`;
  return [
    ...(maxSkew > 0 ? [] : [invalid(`${path}.maxSkew`, maxSkew, positive)]),
    ...(topologyKey === '' ? [required(`${path}.topologyKey`, EMPTY)] : []),
    ...(ACTIONS.includes(action) ? [] : [notSupported(`${path}.whenUnsatisfiable`, action, ACTIONS)]),
    ...(minDomains !== undefined && minDomains <= 0 ? [invalid(`${path}.minDomains`, minDomains, positive)] : []),
    ...(minDomains !== undefined && action !== 'DoNotSchedule'
      ? [invalid(`${path}.minDomains`, minDomains, only)]
      : []),
    ...policies.flatMap((field) => {
      const policy = spread[field];
      return policy === undefined || POLICIES.includes(policy)
        ? []
        : [notSupported(`${path}.${field}`, policy, POLICIES)];
    }),
    ...validateLabelKeys({ matchLabelKeys, labelSelector }, path),
    ...validateLabelSelector(labelSelector, `${path}.labelSelector`),
  ];
}

/** The error is at the constraint that a later one repeats. */
function validateDistinct(spreads: readonly Spread[], path: string): FieldError[] {
  const keys = spreads.map(({ topologyKey, whenUnsatisfiable }) => `{${topologyKey}, ${whenUnsatisfiable}}`);
  const last = new Map(keys.map((key, at) => [key, at]));
  return keys.flatMap((key, at) =>
    last.get(key) === at ? [] : [duplicate(`${path}[${at}].{topologyKey, whenUnsatisfiable}`, key)],
  );
}
