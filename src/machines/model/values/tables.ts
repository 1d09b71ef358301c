/** Changes of tables: objects whose keys are data. The order of keys stays. */
type Table<Value> = Readonly<Record<string, Value>>;

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
