/** Validates which taints of a node a pod tolerates. */
import type { Toleration } from '../api/pod.ts';
import { labelValueErrors } from '../values/labels.ts';
import { checked, type FieldError, invalid, isQualifiedName, notSupported } from './field.ts';

export const validateTolerations = (
  tolerations: readonly Toleration[],
  path: string,
  asKubelet: boolean,
): FieldError[] => tolerations.flatMap((each, at) => validateToleration(each, `${path}[${at}]`, asKubelet));

function validateToleration(toleration: Toleration, path: string, asKubelet: boolean): FieldError[] {
  const { key = '', operator = '', value = '', effect = '', tolerationSeconds } = toleration;
  const all = 'operator must be Exists when `key` is empty, which means "match all values and all keys"';
  const effects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];
  return [
    ...(key === '' ? [] : checked(`${path}.key`, key, isQualifiedName)),
    ...(key === '' && operator !== 'Exists' ? [invalid(`${path}.operator`, operator, all)] : []),
    ...(tolerationSeconds !== undefined && effect !== 'NoExecute'
      ? [invalid(`${path}.effect`, effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")]
      : []),
    ...validateTolerationValue(operator, value, `${path}.operator`, asKubelet),
    ...(effect === '' || effects.includes(effect) ? [] : [notSupported(`${path}.effect`, effect, effects)]),
  ];
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
