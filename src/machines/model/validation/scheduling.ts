/**
 * Validates the fields for schedulers, and selectors of labels and of nodes.
 *
 * The fields for schedulers are affinity, topology spread constraints, scheduling gates, groups and tolerations.
 *
 * A node of 0.2.0 validated only tolerations; a replay of its journal does not apply the other rules.
 */
import type { PodSpec, Toleration } from '../api/pod.ts';
import { labelValueErrors } from '../values/labels.ts';
import {
  checked,
  duplicate,
  errorsOf,
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
  return errorsOf(
    affinity.nodeAffinity && validateNodeAffinity(affinity.nodeAffinity, `${path}.affinity.nodeAffinity`),
    validatePodAffinity(affinity.podAffinity, `${path}.affinity.podAffinity`),
    validatePodAffinity(affinity.podAntiAffinity, `${path}.affinity.podAntiAffinity`),
    gates.flatMap(({ name }, at) =>
      errorsOf(
        checked(`${path}.schedulingGates[${at}]`, name, isQualifiedName),
        repeated.has(at) && duplicate(`${path}.schedulingGates[${at}]`, name),
      ),
    ),
    spreads.flatMap((each, at) => validateSpread(each, `${path}.topologySpreadConstraints[${at}]`)),
    validateDistinct(spreads, `${path}.topologySpreadConstraints`),
    schedulingGroup && validateGroup(schedulingGroup.podGroupName, `${path}.schedulingGroup.podGroupName`),
  );
}

const validateGroup = (name: string | undefined, path: string): FieldError[] =>
  name === undefined ? [invalid(path, null, 'must specify one of: `podGroupName`')] : checked(path, name, isLongName);

const validateWeight = (weight: number, path: string): FieldError[] =>
  weight >= 1 && weight <= 100 ? [] : [invalid(`${path}.weight`, weight, 'must be in the range 1-100')];

function validateNodeAffinity(affinity: NodeAffinity, path: string): FieldError[] {
  const requiredTerms: NodeSelector | undefined = affinity[REQUIRED];
  return errorsOf(
    requiredTerms && validateNodeSelector(requiredTerms, `${path}.${REQUIRED}`),
    (affinity[PREFERRED] ?? []).flatMap(({ weight, preference }, at) => [
      ...validateWeight(weight, `${path}.${PREFERRED}[${at}]`),
      ...validateNodeTerm(preference, `${path}.${PREFERRED}[${at}].preference`, { checksValues: false }),
    ]),
  );
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
  return errorsOf(
    validateLabelSelector(labelSelector, `${path}.labelSelector`),
    validateLabelSelector(namespaceSelector, `${path}.namespaceSelector`),
    namespaces.flatMap((name) => checked(`${path}.namespace`, name, isShortName)),
    validateLabelKeys({ matchLabelKeys, mismatchLabelKeys, labelSelector }, path),
    topologyKey === '' && required(`${path}.topologyKey`, EMPTY),
    checked(`${path}.topologyKey`, topologyKey, isQualifiedName),
  );
}

interface LabelKeys {
  readonly matchLabelKeys: readonly string[] | undefined;
  readonly mismatchLabelKeys?: readonly string[] | undefined;
  readonly labelSelector: LabelSelector | undefined;
}

/** Keys of the pod's own labels, which the API server adds to the selector. */
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

/** The API server has not yet added keys to the selector of a new pod, so a repeated key was written twice. */
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
  return errorsOf(
    maxSkew <= 0 && invalid(`${path}.maxSkew`, maxSkew, positive),
    topologyKey === '' && required(`${path}.topologyKey`, EMPTY),
    !ACTIONS.includes(action) && notSupported(`${path}.whenUnsatisfiable`, action, ACTIONS),
    minDomains !== undefined && minDomains <= 0 && invalid(`${path}.minDomains`, minDomains, positive),
    minDomains !== undefined && action !== 'DoNotSchedule' && invalid(`${path}.minDomains`, minDomains, only),
    policies.flatMap((field) => {
      const policy = spread[field];
      return policy === undefined || POLICIES.includes(policy)
        ? []
        : [notSupported(`${path}.${field}`, policy, POLICIES)];
    }),
    validateLabelKeys({ matchLabelKeys, labelSelector }, path),
    validateLabelSelector(labelSelector, `${path}.labelSelector`),
  );
}

/** The error is at the first of two equal constraints. */
function validateDistinct(spreads: readonly Spread[], path: string): FieldError[] {
  const keys = spreads.map(({ topologyKey, whenUnsatisfiable }) => `{${topologyKey}, ${whenUnsatisfiable}}`);
  const last = new Map(keys.map((key, at) => [key, at]));
  return keys.flatMap((key, at) =>
    last.get(key) === at ? [] : [duplicate(`${path}[${at}].{topologyKey, whenUnsatisfiable}`, key)],
  );
}

/** The taints of a node that a pod tolerates. */
export const validateTolerations = (
  tolerations: readonly Toleration[],
  path: string,
  asKubelet: boolean,
): FieldError[] => tolerations.flatMap((each, at) => validateToleration(each, `${path}[${at}]`, asKubelet));

function validateToleration(toleration: Toleration, path: string, asKubelet: boolean): FieldError[] {
  const { key = '', operator = '', value = '', effect = '', tolerationSeconds } = toleration;
  const all = 'operator must be Exists when `key` is empty, which means "match all values and all keys"';
  const effects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];
  return errorsOf(
    key !== '' && checked(`${path}.key`, key, isQualifiedName),
    key === '' && operator !== 'Exists' && invalid(`${path}.operator`, operator, all),
    tolerationSeconds !== undefined &&
      effect !== 'NoExecute' &&
      invalid(`${path}.effect`, effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"),
    validateTolerationValue(operator, value, `${path}.operator`, asKubelet),
    effect !== '' && !effects.includes(effect) && notSupported(`${path}.effect`, effect, effects),
  );
}

function validateTolerationValue(operator: string, value: string, path: string, asKubelet: boolean): FieldError[] {
  if (operator === '' || operator === 'Equal') {
    const errors = labelValueErrors(value);
    return errors.length > 0 ? [invalid(path, value, errors.join(';'))] : [];
  }
  if (operator !== 'Exists') {
    const isComparison = asKubelet && (operator === 'Lt' || operator === 'Gt');
    return [notSupported(path, operator, ['Equal', 'Exists', ...(isComparison ? ['Lt', 'Gt'] : [])])];
  }
  return value === '' ? [] : [invalid(path, value, "value must be empty when `operator` is 'Exists'")];
}

type PodTerm = NonNullable<
  NonNullable<Affinity['podAffinity']>['requiredDuringSchedulingIgnoredDuringExecution']
>[number];
type LabelSelector = NonNullable<PodTerm['labelSelector']>;
type Requirement = NonNullable<LabelSelector['matchExpressions']>[number];
type NodeSelector = NonNullable<NodeAffinity['requiredDuringSchedulingIgnoredDuringExecution']>;
export type NodeTerm = NodeSelector['nodeSelectorTerms'][number];

const UNKNOWN_OPERATOR = 'not a valid selector operator';
const NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
const NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'";

export function validateLabels(labels: Readonly<Record<string, string>>, path: string): FieldError[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...checked(path, key, isQualifiedName),
    ...checked(path, value, labelValueErrors),
  ]);
}

export function validateLabelSelector(selector: LabelSelector | undefined, path: string): FieldError[] {
  if (selector === undefined) return [];
  return [
    ...validateLabels(selector.matchLabels ?? {}, `${path}.matchLabels`),
    ...(selector.matchExpressions ?? []).flatMap((each, at) => {
      const place = `${path}.matchExpressions[${at}]`;
      return [
        ...validateOperator(each, place, false),
        ...checked(`${place}.key`, each.key, isQualifiedName),
        ...validateValues(each, place),
      ];
    }),
  ];
}

function validateOperator({ operator, values = [] }: Requirement, path: string, ofNode: boolean): FieldError[] {
  const place = `${path}.values`;
  switch (operator) {
    case 'In':
    case 'NotIn':
      return values.length === 0 ? [required(place, NEEDS_VALUES)] : [];
    case 'Exists':
    case 'DoesNotExist':
      return values.length > 0 ? [forbidden(place, NO_VALUES)] : [];
    case 'Gt':
    case 'Lt':
      if (!ofNode) break;
      return values.length === 1
        ? []
        : [required(place, "must be specified single value when `operator` is 'Lt' or 'Gt'")];
    default:
  }
  return [invalid(`${path}.operator`, operator, UNKNOWN_OPERATOR)];
}

const validateValues = ({ values = [] }: Requirement, path: string): FieldError[] =>
  values.flatMap((value, at) => checked(`${path}.values[${at}]`, value, labelValueErrors));

function validateNodeSelector({ nodeSelectorTerms: terms }: NodeSelector, path: string): FieldError[] {
  const place = `${path}.nodeSelectorTerms`;
  if (terms.length === 0) return [required(place, 'must have at least one node selector term')];
  return terms.flatMap((term, at) => validateNodeTerm(term, `${place}[${at}]`, { checksValues: true }));
}

/** A preference may name values that are invalid as labels; it then has no effect. */
function validateNodeTerm(
  { matchExpressions = [], matchFields = [] }: NodeTerm,
  path: string,
  { checksValues }: { readonly checksValues: boolean },
): FieldError[] {
  return [
    ...matchExpressions.flatMap((each, at) => {
      const place = `${path}.matchExpressions[${at}]`;
      return errorsOf(
        validateOperator(each, place, true),
        checked(`${place}.key`, each.key, isQualifiedName),
        checksValues && validateValues(each, place),
      );
    }),
    ...matchFields.flatMap((each, at) => validateFieldRequirement(each, `${path}.matchFields[${at}]`)),
  ];
}

function validateFieldRequirement({ key, operator, values = [] }: Requirement, path: string): FieldError[] {
  const one = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
  const hasOperator = operator === 'In' || operator === 'NotIn';
  return errorsOf(
    !hasOperator && invalid(`${path}.operator`, operator, UNKNOWN_OPERATOR),
    hasOperator && values.length !== 1 && required(`${path}.values`, one),
    key === 'metadata.name'
      ? values.flatMap((value, at) => checked(`${path}.values[${at}]`, value, isLongName))
      : invalid(`${path}.key`, key, 'not a valid field selector key'),
  );
}
