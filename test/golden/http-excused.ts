/** Recorded requests that this server answers differently, each with its reason; by the record's id. */
export const EXCUSED: Readonly<Record<string, string>> = {};
