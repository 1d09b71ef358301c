/** Whether the labels, the name, the ports and the taints of this node suit a pod. */

import type { Toleration } from '../api/pod.ts';
import type { HostPort, PodDemand } from '../operations/grants.ts';
import { type Taint } from '../values/labels.ts';
import { valueIn } from '../values/tables.ts';
import {
  type AdmissionRequest,
  ANY_ADDRESS,
  type NodeRequirement,
  type NodeTerm,
  type NodeView,
  type Rejection,
} from './request.ts';

const failed = (name: string, text: string): Rejection => ({
  reason: name,
  message: `Predicate ${name} failed: ${text}`,
});

export function mismatchOf(
  { rules, demand }: AdmissionRequest,
  node: NodeView,
  others: readonly PodDemand[],
): Rejection | null {
  if (!matchesNode(rules.nodeSelector, rules.nodeAffinity, node)) {
    return failed('NodeAffinity', "node(s) didn't match Pod's node affinity/selector");
  }
  if (rules.nodeName !== '' && rules.nodeName !== node.nodeName) {
    return failed('NodeName', "node(s) didn't match the requested node name");
  }
  const taken = others.flatMap(({ ports }) => ports);
  if (demand.ports.some((port) => taken.some((other) => collide(port, other)))) {
    return failed('NodePorts', "node(s) didn't have free ports for the requested pod ports");
  }
  const untolerated = node.taints
    .filter(({ effect }) => effect === 'NoExecute')
    .some((taint) => !rules.tolerations.some((toleration) => tolerates(toleration, taint)));
  return untolerated && !rules.isStatic
    ? failed('TaintToleration', "node(s) had taints that the pod didn't tolerate")
    : null;
}

const collide = (a: HostPort, b: HostPort): boolean =>
  a.port === b.port && a.protocol === b.protocol && (a.ip === b.ip || a.ip === ANY_ADDRESS || b.ip === ANY_ADDRESS);

/** An absent operator is `Equal`, an absent key matches every key, an absent effect every effect. */
export function tolerates(
  { key = '', operator = 'Equal', value = '', effect = '' }: Toleration,
  taint: Taint,
): boolean {
  if (effect !== '' && effect !== taint.effect) return false;
  if (key !== '' && key !== taint.key) return false;
  return operator === 'Exists' || (operator === 'Equal' && value === (taint.value ?? ''));
}

function matchesNode(
  selector: Readonly<Record<string, string>>,
  affinity: readonly NodeTerm[] | null,
  { labels, nodeName }: NodeView,
): boolean {
  if (!Object.entries(selector).every(([key, value]) => labels[key] === value)) return false;
  return affinity === null || affinity.some((term) => matchesTerm(term, labels, nodeName));
}

/** A term without requirements matches no node. */
export function matchesTerm(
  { matchExpressions = [], matchFields = [] }: NodeTerm,
  labels: Readonly<Record<string, string>>,
  nodeName: string,
): boolean {
  if (matchExpressions.length === 0 && matchFields.length === 0) return false;
  const fields = { 'metadata.name': nodeName };
  return (
    matchExpressions.every((requirement) => matches(requirement, labels)) &&
    matchFields.every((requirement) => matches(requirement, fields))
  );
}

export function matches(
  { key, operator, values = [] }: NodeRequirement,
  labels: Readonly<Record<string, string>>,
): boolean {
  const value = valueIn(labels, key);
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    default:
      return compares(operator, value, values[0]);
  }
}

const INTEGER = /^[+-]?\d+$/;

function compares(operator: string, value: string | undefined, bound: string | undefined): boolean {
  if (value === undefined || bound === undefined || !INTEGER.test(value) || !INTEGER.test(bound)) return false;
  if (operator === 'Gt') return BigInt(value) > BigInt(bound);
  return operator === 'Lt' && BigInt(value) < BigInt(bound);
}
