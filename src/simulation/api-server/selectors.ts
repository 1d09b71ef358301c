/** Label and field selectors of lists and watches. */
import { memberOf } from '../../kernel/json.ts';
import { badRequest } from './errors.ts';
import type { ApiObject } from './types.ts';

export type Selector = (object: ApiObject) => boolean;

export function selectorOf(query: URLSearchParams): Selector {
  const tests = [
    ...split(query.get('fieldSelector') ?? '').map(fieldTest),
    ...split(query.get('labelSelector') ?? '').map(labelTest),
  ];
  return (object) => tests.every((test) => test(object));
}

/** Splits by commas that are not inside parentheses; empty terms are dropped. */
function split(text: string): string[] {
  const terms: string[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at <= text.length; at++) {
    const character = text[at];
    if (character === '(') depth++;
    else if (character === ')') depth--;
    else if (at === text.length || (character === ',' && depth === 0)) {
      if (at > from) terms.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return terms;
}

function fieldTest(term: string): Selector {
  const match = /^([\w.-]+)(==|!=|=)(.*)$/.exec(term.trim());
  if (!match) throw badRequest(`invalid selector: '${term}'; can't understand '${term}'`);
  const [, path = '', operator, wanted] = match;
  return (object) => (fieldValue(object, path) === wanted) === (operator !== '!=');
}

function fieldValue(object: ApiObject, path: string): string {
  let value: unknown = object;
  for (const step of path.split('.')) {
    value = memberOf(value, step);
  }
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}

function labelTest(text: string): Selector {
  const term = text.trim();
  const label = (object: ApiObject, key: string) => object.metadata.labels?.[key];
  const set = /^(\S+)\s+(in|notin)\s*\(([^)]*)\)$/.exec(term);
  if (set) {
    const [, key = '', operator, list = ''] = set;
    const values = list.split(',').map((value) => value.trim());
    return (object) => values.includes(label(object, key) ?? '\0') === (operator === 'in');
  }
  const equality = /^([^!=\s]+)\s*(==|!=|=)\s*(\S*)$/.exec(term);
  if (equality) {
    const [, key = '', operator, wanted] = equality;
    return (object) => (label(object, key) === wanted) === (operator !== '!=');
  }
  if (/^![^\s=!]+$/.test(term)) return (object) => label(object, term.slice(1)) === undefined;
  if (/^[^\s=!]+$/.test(term)) return (object) => label(object, term) !== undefined;
  throw badRequest(`unable to parse requirement: found '${term}'`);
}
