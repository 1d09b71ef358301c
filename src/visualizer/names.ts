/** Names that people know, in place of uids. Pure. */

/** The uid of a static pod, or of one that an API server named, in the id of an actor. */
const UID = /(?<=-)(?:[\da-f]{32}|[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12})/g;

/** A text with names of actors, in which every uid that has a name is that name. */
export const namesIn = (text: string, names: ReadonlyMap<string, string>): string =>
  names.size === 0 ? text : text.replaceAll(UID, (uid) => names.get(uid) ?? uid);

/** A step of an address as it was written. */
export function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
