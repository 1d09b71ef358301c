/** Tables are objects whose keys are data. Their changes keep the order of the keys. */
type Table<Value> = Readonly<Record<string, Value>>;

/** The value of a key, and never what every object has: a container may have the name `constructor`. */
export const valueIn = <Value>(table: Table<Value> | null | undefined, key: string): Value | undefined =>
  table && Object.hasOwn(table, key) ? table[key] : undefined;

export const mapValues = <From, To>(table: Table<From>, change: (value: From, key: string) => To): Record<string, To> =>
  Object.fromEntries(Object.entries(table).map(([key, value]) => [key, change(value, key)]));

/** The entries that the predicate accepts. */
export const pickBy = <Value>(
  table: Table<Value>,
  isPicked: (value: Value, key: string) => boolean,
): Record<string, Value> => Object.fromEntries(Object.entries(table).filter(([key, value]) => isPicked(value, key)));

/** The entries whose keys the predicate accepts. */
export const pickKeys = <Value>(table: Table<Value>, isPicked: (key: string) => boolean): Record<string, Value> =>
  pickBy(table, (_value, key) => isPicked(key));
