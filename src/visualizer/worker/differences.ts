/** What differs between two values of JSON, by path. Pure. */
import { shortText } from '../../actors/server/visualizer/trim.ts';
import { isObject } from '../../kernel/json.ts';
import type { ContextChange } from './requests.ts';

/** Members that are listed; a person reads no more. */
const CHANGES_MAX = 100;
/** Characters of a member, before and after. */
const MEMBER_MAX_CHARS = 2_000;
/** Levels that are gone down; what differs below is shown as a whole. */
const DEPTH_MAX = 6;

export function differences(before: unknown, after: unknown): ContextChange[] {
  const found: ContextChange[] = [];
  collect(before, after, '', 0, found);
  return found;
}

function collect(before: unknown, after: unknown, path: string, depth: number, found: ContextChange[]): void {
  if (before === after || found.length >= CHANGES_MAX) return;
  if (isObject(before) && isObject(after) && depth < DEPTH_MAX) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    for (const name of names)
      collect(before[name], after[name], path === '' ? name : `${path}.${name}`, depth + 1, found);
    return;
  }
  const [was, is] = [JSON.stringify(before) as string | undefined, JSON.stringify(after) as string | undefined];
  if (was !== is) found.push({ path, ...shortened('before', was), ...shortened('after', is) });
}

const shortened = (side: 'before' | 'after', text: string | undefined): Partial<ContextChange> =>
  text === undefined ? {} : { [side]: shortText(text, MEMBER_MAX_CHARS) };
