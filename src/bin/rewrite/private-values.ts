/**
 * Which texts of a journal's inputs are private, by the place where they stand: what people write into pods and
 * ConfigMaps, and what programs print.
 *
 * Decides: names, images, addresses, paths and times stay, because a journal without them explains nothing; who wants
 * one of those gone names it.
 * Invariant: a place is private by the keys that lead to it, so the same rule holds for inputs, requests and messages.
 */

/** Every text below a value of these keys. */
const WHOLE: ReadonlySet<string> = new Set(['command', 'args', 'data', 'binaryData', 'stdout', 'stderr']);
/** A message below these keys is the last word of a program that ended; others are the runtime's and the agent's. */
const ENDED: ReadonlySet<string> = new Set(['output', 'terminated']);
/** Lists of names and values. */
const PAIRS: ReadonlySet<string> = new Set(['env', 'envs', 'httpHeaders']);
/** Annotations that agents and runtimes write themselves, and read again. */
const OWN_ANNOTATION = /(^|\.)(kubernetes|k8s|containerd|cri-o)\.io(\/|\.|$)|^io\.kubernetes\./;
/** This annotation repeats the whole pod. */
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** `keys` lead from the record to the text; members of lists have no key. */
export function isPrivate(keys: readonly string[]): boolean {
  const last = keys.at(-1) ?? '';
  const above = keys.at(-2) ?? '';
  if (keys.some((key) => WHOLE.has(key)) || last === 'output') return true;
  if (last === 'message' && ENDED.has(above)) return true;
  if (last === 'value' && PAIRS.has(above)) return true;
  return above === 'annotations' && (last === LAST_APPLIED || !OWN_ANNOTATION.test(last));
}

/** Calls `visit` with each text of a value and the keys that lead to it. */
export function visitTexts(
  value: unknown,
  visit: (text: string, keys: readonly string[]) => void,
  keys: readonly string[] = [],
): void {
  if (typeof value === 'string') visit(value, keys);
  else if (Array.isArray(value)) for (const item of value) visitTexts(item, visit, keys);
  else if (typeof value === 'object' && value !== null) {
    for (const [key, below] of Object.entries(value)) visitTexts(below, visit, [...keys, key]);
  }
}

/** The value with each text as `change` has it. */
export function mapTexts(
  value: unknown,
  change: (text: string, keys: readonly string[]) => string,
  keys: readonly string[] = [],
): unknown {
  if (typeof value === 'string') return change(value, keys);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change, keys));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, below]) => [key, mapTexts(below, change, [...keys, key])]),
  );
}
