/**
 * Which texts in the inputs of a journal are private, by their place: texts that users write into pods and ConfigMaps,
 * and the output of programs.
 *
 * Decides: names, images, addresses, paths and times stay, because a journal without them explains nothing; a user who
 * wants one of them removed names it. Invariant: the keys that lead to a text decide whether it is private, so the same
 * rule holds for inputs, requests and messages.
 */

/** Every text below a value of these keys. */
const WHOLE: ReadonlySet<string> = new Set(['command', 'args', 'data', 'binaryData', 'stdout', 'stderr']);
/**
 * A message below these keys is the output of a program that ended; other messages are from the runtime and the agent.
 */
const ENDED: ReadonlySet<string> = new Set(['output', 'terminated']);
/** Lists of names and values. */
const PAIRS: ReadonlySet<string> = new Set(['env', 'envs', 'httpHeaders']);
/** Annotations that agents and runtimes write and read themselves. */
const OWN_ANNOTATION = /(^|\.)(kubernetes|k8s|containerd|cri-o)\.io(\/|\.|$)|^io\.kubernetes\./;
/** This annotation contains the whole pod. */
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** `keys` lead from the record to the text; items of lists have no key. */
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

/** A copy of the value with each text replaced by the result of `change`. */
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
