/**
 * Strategic merge patch: objects merge by field, lists in the table below by the key of their items; all other values
 * are replaced. Directives: `$patch` (replace, delete, merge), `$retainKeys`, `$setElementOrder/<list>`,
 * `$deleteFromPrimitiveList/<list>`. Also the other patch formats.
 */
import { badRequest, Refusal } from './errors.ts';
import { type ApiObject, copy, type Fields, isFields, same, type Value } from './kinds.ts';

/** The key of the items by which a list merges; `''` for lists of plain values. */
type MergeKey = string;

/** Fields whose lists merge in the same way in every kind. */
const COMMON: Readonly<Record<string, MergeKey>> = {
  finalizers: '',
  ownerReferences: 'uid',
  containers: 'name',
  initContainers: 'name',
  ephemeralContainers: 'name',
  env: 'name',
  volumeMounts: 'mountPath',
  volumeDevices: 'devicePath',
  volumes: 'name',
  imagePullSecrets: 'name',
  secrets: 'name',
  hostAliases: 'ip',
  topologySpreadConstraints: 'topologyKey',
  schedulingGates: 'name',
  resourceClaims: 'name',
  conditions: 'type',
};

/** Fields that merge by a key in some kinds only. */
const OF_KIND: Readonly<Record<string, Readonly<Record<string, MergeKey>>>> = {
  Pod: { ports: 'containerPort', podIPs: 'ip', hostIPs: 'ip', resourceClaimStatuses: 'name' },
  Node: { addresses: 'type', podCIDRs: '' },
  Service: { ports: 'port' },
  CSINode: { drivers: 'name' },
};

const DIRECTIVE = '$patch';
const RETAIN_KEYS = '$retainKeys';
const ORDER = '$setElementOrder/';
const DELETE_PRIMITIVES = '$deleteFromPrimitiveList/';

export function strategicMerge(target: Fields, patch: Fields, kind: string): Fields {
  if (patch[DIRECTIVE] === 'replace') return withoutDirectives(patch);
  if (patch[DIRECTIVE] === 'delete') return {};
  const result = retained(target, patch);
  for (const [key, value] of Object.entries(patch)) {
    if (key === DIRECTIVE || key === RETAIN_KEYS || key.startsWith(ORDER)) continue;
    if (key.startsWith(DELETE_PRIMITIVES)) removePrimitives(result, key.slice(DELETE_PRIMITIVES.length), value);
    else if (value === null) delete result[key];
    else result[key] = merged(result[key], value, key, kind);
  }
  for (const key of Object.keys(patch).filter((each) => each.startsWith(ORDER))) {
    order(result, target, key.slice(ORDER.length), patch, kind);
  }
  return result;
}

function merged(old: Value | undefined, value: Value, field: string, kind: string): Value {
  if (isFields(value)) return strategicMerge(isFields(old) ? old : {}, value, kind);
  const key = mergeKeyOf(field, kind);
  if (!Array.isArray(value) || key === undefined) return withoutNestedDirectives(value);
  const present = Array.isArray(old) ? old : [];
  const items = value.filter((item) => !isDirective(item));
  const names = nameBy(key);
  if (key === '') {
    const all = [...present, ...value.filter((item) => !present.some((each) => same(each, item)))];
    return interleaved(all, items, present, names);
  }
  return interleaved(mergeList(present, value, key, kind), items, present, names);
}

type NameOf = (item: Value) => string;

const nameBy =
  (key: MergeKey): NameOf =>
  (item) =>
    JSON.stringify(key !== '' && isFields(item) ? item[key] : item);

/**
 * The items that the client names, in its order. An item that only the server has precedes the item that it preceded
 * before; without one it is the last.
 */
function interleaved(
  list: readonly Value[],
  named: readonly Value[],
  before: readonly Value[],
  nameOf: NameOf,
): Value[] {
  const place = (order: readonly Value[]) => {
    const places = new Map(order.map((item, at) => [nameOf(item), at]));
    return (item: Value) => places.get(nameOf(item)) ?? -1;
  };
  const [inClient, onServer] = [place(named), place(before)];
  const clients = list.filter((item) => inClient(item) >= 0).toSorted((a, b) => inClient(a) - inClient(b));
  const servers = list.filter((item) => inClient(item) < 0).toSorted((a, b) => onServer(a) - onServer(b));
  const result: Value[] = [];
  for (const client of clients) {
    const before = servers.findIndex((server) => onServer(client) < 0 || onServer(server) >= onServer(client));
    result.push(...servers.splice(0, before === -1 ? servers.length : before), client);
  }
  return [...result, ...servers];
}

const mergeKeyOf = (field: string, kind: string): MergeKey | undefined => OF_KIND[kind]?.[field] ?? COMMON[field];

function mergeList(present: Value[], patch: Value[], key: string, kind: string): Value[] {
  const items = patch.map((item) => {
    if (!isFields(item)) throw badRequest(`the list that merges by ${key} has an item that is not an object`);
    return item;
  });
  if (items.some((item) => item[DIRECTIVE] === 'replace' && Object.keys(item).length === 1)) {
    return items.filter((item) => item[DIRECTIVE] !== 'replace').map(withoutDirectives);
  }
  let result = [...present];
  for (const item of items) {
    if (item[key] === undefined)
      throw badRequest(`map: ${JSON.stringify(item)} does not contain declared merge key: ${key}`);
    const at = result.findIndex((each) => isFields(each) && same(each[key], item[key]));
    if (item[DIRECTIVE] === 'delete') result = result.filter((each) => !isFields(each) || !same(each[key], item[key]));
    else if (at < 0) result.push(withoutDirectives(item));
    else result[at] = strategicMerge(result[at] as Fields, item, kind);
  }
  return result;
}

function retained(target: Fields, patch: Fields): Fields {
  const keys = patch[RETAIN_KEYS];
  if (!Array.isArray(keys)) return { ...target };
  return Object.fromEntries(Object.entries(target).filter(([key]) => keys.includes(key)));
}

function removePrimitives(result: Fields, field: string, values: Value | undefined): void {
  const present = result[field];
  if (!Array.isArray(present) || !Array.isArray(values)) return;
  result[field] = present.filter((item) => !values.some((each) => same(each, item)));
}

/** A list in the order of the patch, in which the patch's own items must be, too. */
function order(result: Fields, target: Fields, field: string, patch: Fields, kind: string): void {
  const [list, wanted, items] = [result[field], patch[`${ORDER}${field}`], patch[field]];
  if (!Array.isArray(list) || !Array.isArray(wanted)) return;
  const nameOf = nameBy(mergeKeyOf(field, kind) ?? '');
  const names = wanted.map(nameOf);
  const places = (Array.isArray(items) ? items.filter((item) => !isDirective(item)) : []).map((item) =>
    names.indexOf(nameOf(item)),
  );
  if (places.some((place, at) => place < 0 || place < (places[at - 1] ?? 0))) {
    const text = `The order in patch list:\n${JSON.stringify(items)}\n doesn't match $setElementOrder list:\n`;
    throw new Refusal(`${text}${JSON.stringify(wanted)}\n`, { code: 500, reason: '' });
  }
  const before = target[field];
  result[field] = interleaved(list, wanted, Array.isArray(before) ? before : [], nameOf);
}

const isDirective = (item: Value): boolean => isFields(item) && item[DIRECTIVE] !== undefined;

function withoutDirectives(patch: Fields): Fields {
  const kept = Object.entries(patch).filter(
    ([key, value]) =>
      value !== null &&
      key !== DIRECTIVE &&
      key !== RETAIN_KEYS &&
      !key.startsWith(ORDER) &&
      !key.startsWith(DELETE_PRIMITIVES),
  );
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutNestedDirectives(value)]));
}

function withoutNestedDirectives(value: Value): Value {
  if (Array.isArray(value)) return value.filter((item) => !isDirective(item)).map(withoutNestedDirectives);
  return isFields(value) ? withoutDirectives(value) : copy(value);
}

/** The three patch formats. Each function returns a changed copy of the object. */
export function applyPatch(contentType: string, object: ApiObject, patch: unknown, kind: string): ApiObject {
  switch (contentType) {
    case 'application/json-patch+json':
      return jsonPatch(object, patch);
    case 'application/merge-patch+json':
      return mergePatch(object, patch) as ApiObject;
    case 'application/strategic-merge-patch+json':
      return strategicMerge(object as Fields, objectPatch(patch), kind) as ApiObject;
    default:
      throw new Refusal(
        'the body of the request was in an unknown format - accepted media types include: ' +
          'application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json',
        { code: 415, reason: 'UnsupportedMediaType' },
      );
  }
}

function objectPatch(patch: unknown): Fields {
  if (!isFields(patch)) throw badRequest('the patch is not an object');
  return patch;
}

/** RFC 7386. */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isFields(patch)) return copy(patch);
  const result: Record<string, unknown> = isFields(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}

interface JsonOperation {
  readonly op: string;
  readonly path: string;
  readonly from?: string;
  readonly value?: Value;
}

/** RFC 6902. */
function jsonPatch(object: ApiObject, patch: unknown): ApiObject {
  if (!Array.isArray(patch)) throw badRequest('the JSON patch is not a list');
  const result = copy(object);
  const operations: readonly JsonOperation[] = patch;
  for (const operation of operations) applyOperation(result, operation);
  return result;
}

const unprocessable = (message: string) => new Refusal(message, { code: 422, reason: 'Invalid' });
const stepsOf = (pointer: string) =>
  pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));

function applyOperation(root: unknown, { op, path, from, value }: JsonOperation): void {
  switch (op) {
    case 'test':
      if (!same(read(root, path), value)) {
        throw unprocessable(
          `the server rejected our request due to an error in our request: testing value ${path} failed`,
        );
      }
      return;
    case 'add':
      return write(root, path, copy(value), true);
    case 'replace':
      read(root, path);
      return write(root, path, copy(value), false);
    case 'remove':
      return erase(root, path);
    case 'copy':
      return write(root, path, copy(read(root, from ?? '')), true);
    case 'move': {
      const moved = read(root, from ?? '');
      erase(root, from ?? '');
      return write(root, path, moved, true);
    }
    default:
      throw unprocessable(`unknown operation of JSON patch: ${op}`);
  }
}

function parentOf(root: unknown, pointer: string): { parent: unknown; key: string } {
  const steps = stepsOf(pointer);
  const key = steps.pop();
  if (key === undefined) throw unprocessable('the whole object cannot be replaced by JSON patch');
  let parent: unknown = root;
  for (const step of steps) parent = childOf(parent, step, pointer);
  return { parent, key };
}

function childOf(parent: unknown, key: string, pointer: string): unknown {
  const value = Array.isArray(parent) ? (parent as unknown[])[Number(key)] : isFields(parent) ? parent[key] : undefined;
  if (value === undefined) throw unprocessable(`the server rejected our request: missing path ${pointer}`);
  return value;
}

function read(root: unknown, pointer: string): unknown {
  const { parent, key } = parentOf(root, pointer);
  return childOf(parent, key, pointer);
}

function write(root: unknown, pointer: string, value: unknown, insert: boolean): void {
  const { parent, key } = parentOf(root, pointer);
  if (isFields(parent)) parent[key] = value as Value;
  else if (!Array.isArray(parent)) throw unprocessable(`the server rejected our request: missing path ${pointer}`);
  else parent.splice(key === '-' ? parent.length : Number(key), insert ? 0 : 1, value as Value);
}

function erase(root: unknown, pointer: string): void {
  const { parent, key } = parentOf(root, pointer);
  childOf(parent, key, pointer);
  if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else delete (parent as Fields)[key];
}
