/**
 * Owns how plain scalars of YAML become values: YAML 1.1 without the parts that the Go reader does not have (dates,
 * sets, ordered maps, binary), and with the octal form of 1.2 that it does have.
 */
import type { CollectionTag, ScalarTag, Tags } from 'yaml';

const octal: ScalarTag = {
  tag: 'tag:yaml.org,2002:int',
  default: true,
  test: /^[-+]?0o[0-7]+$/,
  resolve: (text, _onError, { intAsBigInt }) => {
    const value = text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text.replace('+', ''));
    return intAsBigInt ? value : Number(value);
  },
};

/** A number with an exponent begins with its digits: `e1` is text. */
const exponent: ScalarTag = {
  tag: 'tag:yaml.org,2002:float',
  default: true,
  format: 'EXP',
  test: /^[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+)[eE][-+]?[0-9]+$/,
  resolve: (text) => Number(text.replaceAll('_', '')),
};

export function goTags(tags: Tags): Tags {
  return [...tags.filter((tag) => typeof tag !== 'object' || !isForeign(tag)), octal, exponent];
}

/** What such a tag would match stays text. */
function isForeign(tag: CollectionTag | ScalarTag): boolean {
  return (
    ('format' in tag && (tag.format === 'TIME' || tag.format === 'EXP')) ||
    /:(binary|omap|pairs|set|timestamp)$/.test(tag.tag)
  );
}
