/** Reads fields of thrown values: an error of Node, of gRPC, of an operation, or any object. */

type Fields = Readonly<Record<string, unknown>>;
const isObject = (thrown: unknown): thrown is Fields => typeof thrown === 'object' && thrown !== null;

export const messageOf = (thrown: unknown): string =>
  isObject(thrown) && typeof thrown['message'] === 'string' ? thrown['message'] : String(thrown);

/** The code of a system call (`ENOENT`) or of an operation (`UNIMPLEMENTED`); `undefined` without one. */
export const codeOf = (thrown: unknown): string | undefined =>
  isObject(thrown) && typeof thrown['code'] === 'string' ? thrown['code'] : undefined;

/**
 * Returns a value whose presence the order of the states guarantees. If the value is missing, the error names it by
 * `what`.
 */
export function required<Value>(value: Value | null | undefined, what: string): Value {
  if (value === null || value === undefined) throw new Error(`${what}: needed by this step, and not there`);
  return value;
}
