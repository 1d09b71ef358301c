/**
 * How large a pod may be on this node. Pure.
 *
 * Upstream has no such limits: the API server refuses requests of more than 3 MiB. Here every decision about a pod is
 * made between two others, so what one pod can cost is bounded. Invariant: the question costs no more than the limit.
 */
import { isRecord } from './schema.ts';

/** Containers of one pod, init containers among them: far more than a machine can run. */
export const POD_CONTAINERS_MAX = 2_000;
/** Entries of all lists and maps of one pod: fields, variables, ports, volumes, labels. */
export const POD_VALUES_MAX = 50_000;

/** Why a document is too large to be a pod of this node; `null`: it is not. */
export function sizeProblem(document: unknown): string | null {
  const spec = isRecord(document) && isRecord(document['spec']) ? document['spec'] : {};
  const [containers, initContainers] = [lengthOf(spec['containers']), lengthOf(spec['initContainers'])];
  if (containers + initContainers > POD_CONTAINERS_MAX) {
    const detail = `this node takes pods of at most ${POD_CONTAINERS_MAX} containers, init containers among them`;
    return `spec.containers: Too many: ${containers + initContainers}: ${detail}`;
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
