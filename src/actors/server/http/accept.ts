/** Decides whether a client takes what there is. Pure. */

export interface MediaRange {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** The ranges of an `Accept` header, the most wanted first. */
export function mediaRanges(header: string | undefined): MediaRange[] {
  return (header ?? '')
    .split(',')
    .map((range) => {
      const [type = '', ...rest] = range.split(';').map((part) => part.trim());
      const parameters = Object.fromEntries(
        rest.map((pair) => {
          const equals = pair.indexOf('=');
          return equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)];
        }),
      ) as Record<string, string>;
      const quality = Number(parameters['q'] ?? '1');
      return { type: type.toLowerCase(), parameters, quality: Number.isFinite(quality) ? quality : 0 };
    })
    .filter(({ type, quality }) => type !== '' && quality > 0)
    .toSorted((one, other) => other.quality - one.quality);
}

/** Without a header everything is taken. */
export function takes(header: string | undefined, type: string): boolean {
  if (header === undefined || header.trim() === '') return true;
  const group = `${type.split('/', 1)[0]}/*`;
  return mediaRanges(header).some((range) => [type, group, '*/*'].includes(range.type));
}
