/** The three patch formats. Each function returns a changed copy of the object. */
import { badRequest, Refusal } from './errors.ts';
import { strategicMerge } from './strategic-merge.ts';
import { type ApiObject, copy, type Fields, isFields, same, type Value } from './types.ts';

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
