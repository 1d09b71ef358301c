/** Converts headers of earlier formats to this format. Other lines did not change since {@link OLDEST_FORMAT}. */

import { isObject } from '../json.ts';
import { FORMAT_VERSION, type HeaderRecord } from '../records.ts';

/** The oldest format that is read: earlier formats were never released. */
export const OLDEST_FORMAT = 3;

type Upcaster = (header: HeaderRecord) => HeaderRecord;

/** The conversions from each earlier format to the next one. */
const UPCASTERS: readonly Upcaster[] = [
  // 3 to 4: the input of the root machine states how many changed decisions the node takes; format 3 had none.
  (header) => ({ ...header, input: { ...(isObject(header.input) ? header.input : {}), behavior: 0 } }),
  // 4 to 5: a line may also refer to a list or object whose items are not the same; the header is as before.
  (header) => header,
];

export const isReadableFormat = (version: unknown): boolean =>
  typeof version === 'number' && Number.isSafeInteger(version) && version >= OLDEST_FORMAT && version <= FORMAT_VERSION;

/** The header in the current format. */
export function upcast(header: HeaderRecord): HeaderRecord {
  const version: number = header.version;
  const upcasters = UPCASTERS.slice(version - OLDEST_FORMAT);
  return { ...upcasters.reduce((older, upcaster) => upcaster(older), header), version: FORMAT_VERSION };
}
