/**
 * Headers of earlier formats as this format has them. All other lines are the same in each format from
 * {@link OLDEST_FORMAT} on.
 */

import { isObject } from '../json.ts';
import { FORMAT_VERSION, type HeaderRecord } from '../records.ts';

/** Earlier formats were never released. */
export const OLDEST_FORMAT = 3;

type Upcaster = (header: HeaderRecord) => HeaderRecord;

/** The conversions from each earlier format to the next one. */
const UPCASTERS: readonly Upcaster[] = [
  // 3 to 4: the input of the root machine says how many changed decisions the node takes. Before, there were none.
  (header) => ({ ...header, input: { ...(isObject(header.input) ? header.input : {}), behavior: 0 } }),
];

export const isReadableFormat = (version: unknown): boolean =>
  typeof version === 'number' && Number.isSafeInteger(version) && version >= OLDEST_FORMAT && version <= FORMAT_VERSION;

/** The header in the current format. */
export function upcast(header: HeaderRecord): HeaderRecord {
  const version: number = header.version;
  const wanted = UPCASTERS.slice(version - OLDEST_FORMAT);
  return { ...wanted.reduce((older, upcaster) => upcaster(older), header), version: FORMAT_VERSION };
}
