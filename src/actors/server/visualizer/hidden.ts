/**
 * Hides values in the visualizer that may be secrets: environment variables, headers of probes and hooks, and passwords
 * in addresses. Secrets of the API are already handles; these are literals in pods. Pure; a value without hidden parts
 * is returned unchanged.
 */

/** Takes the place of a value. */
export const HIDDEN = '(hidden)';

/** Lists of pairs: in a container of Kubernetes and of the runtime, a probe or hook, manifests by URL. */
const PAIRS = new Set(['env', 'envs', 'httpHeaders', 'headers']);
/** Objects by name. */
const MAPS = new Set(['staticPodURLHeader', 'manifestURLHeader']);
/** Omitted: an applied manifest repeats the environment of its pod. */
const APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
/** `NAME=value` in a list of texts, as in the environment of a process. */
const ASSIGNED = /^([A-Za-z_][\w.-]*)=/;
/** The user and password of an address; each part is bounded, so that the search is linear. */
const USER_INFO = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/?#"]{1,1024}@/gi;

export function hidden(value: unknown): unknown {
  if (typeof value === 'string') return withoutPassword(value);
  if (typeof value !== 'object' || value === null) return value;
  return Array.isArray(value) ? items(value) : members(value);
}

function items(list: readonly unknown[]): readonly unknown[] {
  const kept = list.map(hidden);
  return kept.every((item, at) => item === list[at]) ? list : kept;
}

function members(object: object): object {
  const entries = Object.entries(object);
  const kept = entries.map(([name, member]) => ({ name, member, shown: ofMember(name, member) }));
  if (kept.every(({ member, shown }) => member === shown)) return object;
  return Object.fromEntries(kept.map(({ name, shown }) => [name, shown]));
}

function ofMember(name: string, member: unknown): unknown {
  if (PAIRS.has(name) && Array.isArray(member)) return member.map(withoutValue);
  if (MAPS.has(name) && typeof member === 'object' && member !== null) return withoutValues(member);
  if (name === APPLIED) return HIDDEN;
  return hidden(member);
}

function withoutValue(pair: unknown): unknown {
  if (typeof pair === 'string') {
    const name = ASSIGNED.exec(pair)?.[1];
    return name === undefined ? HIDDEN : `${name}=${HIDDEN}`;
  }
  if (typeof pair !== 'object' || pair === null) return pair;
  return 'value' in pair ? { ...(hidden(pair) as object), value: HIDDEN } : hidden(pair);
}

const withoutValues = (map: object): object => Object.fromEntries(Object.keys(map).map((name) => [name, HIDDEN]));

const withoutPassword = (text: string): string =>
  text.includes('://') ? text.replace(USER_INFO, `$1${HIDDEN}@`) : text;
