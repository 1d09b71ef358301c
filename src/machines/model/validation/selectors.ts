/** Validates selectors of labels and of nodes. */
import type { PodSpec } from '../api/pod.ts';
import { labelValueErrors } from '../values/labels.ts';
import {
  checked,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isLongName,
  isQualifiedName,
  required,
} from './field.ts';

type Affinity = NonNullable<PodSpec['affinity']>;
type PodTerm = NonNullable<
  NonNullable<Affinity['podAffinity']>['requiredDuringSchedulingIgnoredDuringExecution']
>[number];
export type LabelSelector = NonNullable<PodTerm['labelSelector']>;
type Requirement = NonNullable<LabelSelector['matchExpressions']>[number];
type NodeAffinity = NonNullable<Affinity['nodeAffinity']>;
export type NodeSelector = NonNullable<NodeAffinity['requiredDuringSchedulingIgnoredDuringExecution']>;
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

export function validateNodeSelector({ nodeSelectorTerms: terms }: NodeSelector, path: string): FieldError[] {
  const place = `${path}.nodeSelectorTerms`;
  if (terms.length === 0) return [required(place, 'must have at least one node selector term')];
  return terms.flatMap((term, at) => validateNodeTerm(term, `${place}[${at}]`, { checksValues: true }));
}

/** A preference may name values that are invalid as labels; it then has no effect. */
export function validateNodeTerm(
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
