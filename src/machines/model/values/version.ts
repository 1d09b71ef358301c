/** Decides whether a version may stand for the one of this build; its words are those of Kubernetes' own parser. */
import { quote } from './go-text.ts';

const VERSION = /^v([0-9]+(?:\.[0-9]+)*)/;
/** A pre-release, and what the build says of itself. */
const EXTRA = /^(?:-([0-9a-z-]+(?:\.[0-9a-z-]+)*))?(?:\+[0-9a-z-]+(?:\.[0-9a-z-]+)*)?\s*$/i;

/** Null: it is the version of this build, or another pre-release or build of it. */
export function versionError(text: string, version: string): string | null {
  if (text === version) return null;
  const [start = '', numbers] = VERSION.exec(text) ?? [];
  const extra = text.slice(start.length);
  if (numbers === undefined) return `could not parse ${quote(text)} as version`;
  const components = numbers.split('.');
  if (components.length !== 3) return `illegal version string ${quote(text)}`;
  const found = EXTRA.exec(extra);
  const zero = [...components, ...(found?.[1]?.split('.') ?? [])].find((component) => /^0[0-9]+$/.test(component));
  if (zero !== undefined) return `illegal zero-prefixed version component ${quote(zero)} in ${quote(text)}`;
  if (found === null) return `could not parse pre-release/metadata (${extra}) in version ${quote(text)}`;
  if (VERSION.exec(version)?.[1] === numbers) return null;
  return `version ${quote(text)} must match major/minor/patch of default version ${quote(version)}`;
}
