/**
 * Whether two values have the same JSON, the order of members included, without making it.
 *
 * Values that a log refers to and that machines hand on are compared once: what is found equal is kept by identity,
 * because neither is changed afterwards.
 */
const equal = new WeakMap<object, object>();

/** Members from which on what was found equal is kept. */
const WORTH_KEEPING = 4;

/** `logged` comes from JSON; `made` may have what JSON cannot say. */
export function isSameJson(logged: unknown, made: unknown): boolean {
  if (logged === made) return true;
  if (!isContainer(logged) || !isContainer(made) || 'toJSON' in made)
    return JSON.stringify(logged) === JSON.stringify(made);
  if (equal.get(logged) === made) return true;
  return Array.isArray(logged) || Array.isArray(made) ? isSameList(logged, made) : haveSameMembers(logged, made);
}

type Container = Readonly<Record<string, unknown>>;
const isContainer = (value: unknown): value is Container => typeof value === 'object' && value !== null;

function haveSameMembers(logged: Container, made: Container): boolean {
  const [names, madeNames] = [Object.keys(logged), Object.keys(made)];
  // Lists of values are sooner had than members by their names.
  const [values, madeValues] = [Object.values(logged), Object.values(made)];
  let at = 0;
  for (let its = 0; its < madeNames.length; its++) {
    const value = madeValues[its];
    if (value === undefined || typeof value === 'function' || typeof value === 'symbol') continue;
    if (names[at] !== madeNames[its] || !isSameJson(values[at], value)) return false;
    at++;
  }
  if (at !== names.length) return false;
  if (at >= WORTH_KEEPING) equal.set(logged, made);
  return true;
}

function isSameList(logged: unknown, made: unknown): boolean {
  if (!Array.isArray(logged) || !Array.isArray(made) || logged.length !== made.length) return false;
  return logged.every((part, at) => isSameJson(part, (made[at] as unknown) ?? null));
}
