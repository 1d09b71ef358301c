/**
 * Validates label keys, label values and taints, with the texts of Kubernetes' own validation.
 *
 * Invariant: each check returns all faults, in upstream's order.
 */

import type { Parsed } from './go-text.ts';

export type Taint = {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
  readonly timeAdded?: string;
};

const NAME_LENGTH = 63;
const SUBDOMAIN_LENGTH = 253;
const NAME_PATTERN = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const NAME = new RegExp(`^${NAME_PATTERN}$`);
const SUBDOMAIN_PATTERN = String.raw`[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`;
const SUBDOMAIN = new RegExp(`^${SUBDOMAIN_PATTERN}$`);
const ENDS = 'and must start and end with an alphanumeric character';

const NAME_REFUSAL =
  `must consist of alphanumeric characters, '-', '_' or '.', ${ENDS} ` +
  `(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${NAME_PATTERN}')`;
const VALUE_REFUSAL =
  `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', ${ENDS} ` +
  `(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${NAME_PATTERN})?')`;
const SUBDOMAIN_REFUSAL =
  `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ${ENDS} ` +
  `(e.g. 'example.com', regex used for validation is '${SUBDOMAIN_PATTERN}')`;

/** Length in bytes, as Go counts. */
const bytes = (text: string): number => new TextEncoder().encode(text).length;

function tooLong(length: number): string {
  return `must be no more than ${length} bytes`;
}

function subdomainErrors(text: string): string[] {
  return [
    ...(bytes(text) > SUBDOMAIN_LENGTH ? [tooLong(SUBDOMAIN_LENGTH)] : []),
    ...(SUBDOMAIN.test(text) ? [] : [SUBDOMAIN_REFUSAL]),
  ];
}

/** `validation.IsQualifiedName`. */
export function qualifiedNameErrors(text: string): string[] {
  const parts = text.split('/');
  if (parts.length > 2) {
    return [
      `a valid label key ${NAME_REFUSAL} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const name = parts.at(-1) ?? '';
  const prefix = parts.length === 2 ? parts[0] : undefined;
  const prefixErrors = prefix === '' ? ['must be non-empty'] : prefix === undefined ? [] : subdomainErrors(prefix);
  const nameErrors = [
    ...(name === '' ? ['must be non-empty'] : []),
    ...(bytes(name) > NAME_LENGTH ? [tooLong(NAME_LENGTH)] : []),
    ...(NAME.test(name) ? [] : [NAME_REFUSAL]),
  ];
  return [...prefixErrors.map((error) => `prefix part ${error}`), ...nameErrors.map((error) => `name part ${error}`)];
}

/** `validation.IsValidLabelValue`. */
export function labelValueErrors(text: string): string[] {
  return [
    ...(bytes(text) > NAME_LENGTH ? [tooLong(NAME_LENGTH)] : []),
    ...(text === '' || NAME.test(text) ? [] : [VALUE_REFUSAL]),
  ];
}

const TAINT_EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

/** A taint as Go prints the struct. */
export function printTaint({ key, value, effect, timeAdded }: Taint): string {
  return `{${key} ${value ?? ''} ${effect} ${timeAdded ?? '<nil>'}}`;
}

/** `CheckTaintValidation`: an effect may be missing, but not wrong. */
export function isValidTaint({ key, value, effect }: Taint): boolean {
  const effectIsValid = effect === '' || TAINT_EFFECTS.includes(effect);
  return effectIsValid && qualifiedNameErrors(key).length === 0 && labelValueErrors(value ?? '').length === 0;
}

/** The flag form: `key=value:Effect` or `key:Effect`, separated by commas; a trailing `-` removes a taint. */
export function parseTaints(text: string): Parsed<readonly Taint[]> {
  const taints: Taint[] = [];
  for (const spec of text === '' ? [] : text.split(',')) {
    const removes = spec.endsWith('-');
    const parsed = parseTaint(removes ? spec.slice(0, -1) : spec);
    if (parsed.error !== undefined) return parsed;
    if (removes) continue;
    const taint = parsed.value;
    if (taint.effect === '') return { error: `invalid taint spec: ${spec}` };
    if (taints.some(({ key, effect }) => key === taint.key && effect === taint.effect)) {
      return { error: `duplicated taints with the same key and effect: ${printTaint(taint)}` };
    }
    taints.push(taint);
  }
  return { value: taints };
}

function parseTaint(spec: string): Parsed<Taint> {
  const [pair = '', effect = '', ...more] = spec.split(':');
  if (more.length > 0) return { error: `invalid taint spec: ${spec}` };
  if (spec.includes(':') && !TAINT_EFFECTS.includes(effect)) {
    return { error: `invalid taint effect: ${effect}, unsupported taint effect` };
  }
  const [key = '', value, ...rest] = spec.includes(':') ? pair.split('=') : [pair];
  if (rest.length > 0) return { error: `invalid taint spec: ${spec}` };
  const errors = [labelValueErrors(value ?? ''), qualifiedNameErrors(key)].find((found) => found.length > 0);
  if (errors !== undefined) return { error: `invalid taint spec: ${spec}, ${errors.join('; ')}` };
  return { value: value === undefined || value === '' ? { key, effect } : { key, value, effect } };
}

const KUBELET_LABELS = [
  'beta.kubernetes.io/arch',
  'beta.kubernetes.io/instance-type',
  'beta.kubernetes.io/os',
  'failure-domain.beta.kubernetes.io/region',
  'failure-domain.beta.kubernetes.io/zone',
  'kubernetes.io/arch',
  'kubernetes.io/hostname',
  'kubernetes.io/os',
  'node.kubernetes.io/instance-type',
  'topology.kubernetes.io/region',
  'topology.kubernetes.io/zone',
];
const KUBELET_LABEL_NAMESPACES = ['kubelet.kubernetes.io', 'node.kubernetes.io'];
const KUBERNETES_NAMESPACES = ['kubernetes.io', 'k8s.io'];

function isWithin(namespace: string, parents: readonly string[]): boolean {
  return parents.some((parent) => namespace === parent || namespace.endsWith(`.${parent}`));
}

function isForbidden(label: string): boolean {
  const namespace = label.includes('/') ? label.slice(0, label.indexOf('/')) : '';
  if (!isWithin(namespace, KUBERNETES_NAMESPACES)) return false;
  return !KUBELET_LABELS.includes(label) && !isWithin(namespace, KUBELET_LABEL_NAMESPACES);
}

/** Why `--node-labels` is invalid, or null. */
export function nodeLabelsError(labels: Readonly<Record<string, string>>): string | null {
  const keys = Object.keys(labels).toSorted();
  const forbidden = keys.filter(isForbidden);
  if (forbidden.length > 0) {
    const prefixes = KUBELET_LABEL_NAMESPACES.join(', ');
    return (
      `unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [${forbidden.join(' ')}]\n` +
      `--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix (${prefixes}) ` +
      `or be in the specifically allowed set (${KUBELET_LABELS.join(', ')})`
    );
  }
  const invalid = keys.flatMap((key) => labelErrors(key, labels[key] ?? ''));
  return invalid.length === 0 ? null : `invalid node labels: ${invalid.join('; ')}`;
}

function labelErrors(key: string, value: string): string[] {
  const errors = [[key, qualifiedNameErrors(key)] as const, [value, labelValueErrors(value)] as const];
  return errors.flatMap(([text, found]) => (found.length === 0 ? [] : [`'${text}' - ${found.join(', ')}`]));
}
