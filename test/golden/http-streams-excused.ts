/** Recorded streams that this server answers differently, each with its reason; by the record's id. */
const SHORT_KEY = 'hardened: a key that is not of 16 bytes is refused, as RFC 6455 4.2.1 wants it';

export const EXCUSED: Readonly<Record<string, string>> = {
  'ws-bad-022': SHORT_KEY,
};

/**
 * Commands of one `echo` with a terminal, by the record's id. If such a command ends before its terminal is read, the
 * runtime loses the output: one of the three recordings has no output, the other two have it.
 */
export const MAY_LOSE_OUTPUT: ReadonlySet<string> = new Set(['ws-exec-025', 'ws-exec-033', 'ws-exec-041']);
