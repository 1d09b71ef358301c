/** A command line that a person can paste into a shell: each word stays one word and is nothing else. */

const PLAIN = /^[A-Za-z0-9_./:@%+=,-]+$/;

export const shellLine = (words: readonly string[]): string =>
  words.map((word) => (PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
