/**
 * The texts of Kubernetes' field errors, and shared checks of names.
 *
 * The texts are upstream's to the byte, because people search for them. A check returns the errors of a value; an empty
 * list means valid.
 */

import { quote } from '../values/go-text.ts';
import { qualifiedNameErrors } from '../values/labels.ts';

/** The path of a value (`spec.containers[0].name`) and the error, in one line. */
export type FieldError = string;
type Falsy = false | 0 | null | undefined;
/** Returns the errors of a value, without its path. */
type Check = (value: string) => readonly string[];

const show = (value: unknown): string => (typeof value === 'string' ? quote(value) : JSON.stringify(value));
const withDetail = (detail: string): string => (detail === '' ? '' : `: ${detail}`);

export const required = (path: string, detail = ''): FieldError => `${path}: Required value${withDetail(detail)}`;
export const forbidden = (path: string, detail: string): FieldError => `${path}: Forbidden: ${detail}`;
export const duplicate = (path: string, value: unknown): FieldError => `${path}: Duplicate value: ${show(value)}`;
export const notFound = (path: string, value: unknown): FieldError => `${path}: Not found: ${show(value)}`;
export const invalid = (path: string, value: unknown, detail: string): FieldError =>
  `${path}: Invalid value: ${show(value)}${withDetail(detail)}`;
export const tooLong = (path: string, limit: number): FieldError =>
  `${path}: Too long: may not be more than ${limit} bytes`;
export const notSupported = (path: string, value: unknown, supported: readonly string[]): FieldError =>
  `${path}: Unsupported value: ${show(value)}: supported values: ${supported.map(quote).join(', ')}`;

/**
 * The errors of several rules in one list. A rule is `condition && error`, or a list of errors; a satisfied rule is
 * falsy or an empty list.
 */
export const errorsOf = (...rules: readonly (FieldError | readonly FieldError[] | Falsy)[]): FieldError[] =>
  rules.flatMap((rule) => rule || []);

/** Indices of keys that occurred before, for a list with unique keys. */
export function repeatedAt(keys: readonly unknown[]): ReadonlySet<number> {
  const first = new Map<unknown, number>();
  return new Set(
    keys.flatMap((key, at) => {
      if (first.has(key)) return [at];
      first.set(key, at);
      return [];
    }),
  );
}

/** An optional enumeration that may be absent, but not empty. */
export const supportedOnly = (path: string, value: string | undefined, supported: readonly string[]): FieldError[] =>
  value === undefined || supported.includes(value) ? [] : [notSupported(path, value, supported)];

/** Each result of a check as an error of this field. */
export const checked = (path: string, value: string, check: Check): FieldError[] =>
  check(value).map((reason) => invalid(path, value, reason));

/** A required enumeration: absent and empty are both missing. */
export function oneOf(path: string, value: string | undefined, supported: readonly string[]): FieldError[] {
  if (value === undefined || value === '') return [required(path)];
  return supported.includes(value) ? [] : [notSupported(path, value, supported)];
}

/** An optional enumeration. */
export const optionalOneOf = (path: string, value: string | undefined, supported: readonly string[]): FieldError[] =>
  value === undefined ? [] : oneOf(path, value, supported);

/** An error for every value that equals an earlier one. */
export function duplicates(entries: ReadonlyArray<readonly [path: string, value: string]>): FieldError[] {
  const values = new Set<string>();
  return entries.flatMap(([path, value]) => {
    if (values.has(value)) return [duplicate(path, value)];
    values.add(value);
    return [];
  });
}

export const inclusiveRange = (low: number, high: number): string => `must be between ${low} and ${high}, inclusive`;

export const nonNegative = (path: string, value: number | undefined): FieldError[] =>
  (value ?? 0) < 0 ? [invalid(path, value, 'must be greater than or equal to 0')] : [];

const LABEL_LENGTH = 63;
const SUBDOMAIN_LENGTH = 253;
const PORT_NAME_LENGTH = 15;
const MAX_PORT = 65_535;
const LABEL_FORM = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN_FORM = String.raw`${LABEL_FORM}(\.${LABEL_FORM})*`;
const UNDERSCORE_FORM = '[a-z0-9]([-_a-z0-9]*[a-z0-9])?';
const UNDERSCORE_SUBDOMAIN_FORM = String.raw`${UNDERSCORE_FORM}(\.${UNDERSCORE_FORM})*`;
/** The form of newer kubelets, in which a label may begin with an underscore. */
const LEADING_UNDERSCORE_FORM = '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?';
const SEARCH_FORM = String.raw`${LEADING_UNDERSCORE_FORM}(\.${LEADING_UNDERSCORE_FORM})*`;
const CONFIG_KEY_FORM = '[-._a-zA-Z0-9]+';
const ENDS = 'and must start and end with an alphanumeric character';

function formed(form: string, description: string, example: string, limit: number): Check {
  const pattern = new RegExp(`^${form}$`);
  const reason = `${description} (e.g. ${example}, regex used for validation is '${form}')`;
  return (value) =>
    errorsOf(byteLength(value) > limit && `must be no more than ${limit} bytes`, !pattern.test(value) && reason);
}

/** Length in UTF-8, without a platform API. */
export function byteLength(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    bytes += point < 0x80 ? 1 : point < 0x8_00 ? 2 : point < 0x1_00_00 ? 3 : 4;
  }
  return bytes;
}

export const isDnsLabel: Check = formed(
  LABEL_FORM,
  `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', ${ENDS}`,
  `'my-name',  or '123-abc'`,
  LABEL_LENGTH,
);

export const isDnsSubdomain: Check = formed(
  SUBDOMAIN_FORM,
  `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ${ENDS}`,
  `'example.com'`,
  SUBDOMAIN_LENGTH,
);

/** A label, with upstream's text for a name with dots. */
export const isShortName: Check = (value) =>
  isDnsLabel(value).map((fault) => {
    const isSubdomain = value.includes('.') && fault.startsWith('a lowercase') && SUBDOMAIN.test(value);
    return isSubdomain ? 'must not contain dots' : inCharacters(fault);
  });

/** A subdomain, with upstream's text for a long name: the limit is in characters. */
export const isLongName: Check = (value) => isDnsSubdomain(value).map(inCharacters);

const SUBDOMAIN = new RegExp(`^${SUBDOMAIN_FORM}$`);
const inCharacters = (fault: string): string => fault.replace(/(?<=^must be no more than \d+ )bytes$/, 'characters');

const SEARCH = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', ${ENDS}`;
export const isDnsSubdomainWithUnderscore: Check = formed(
  UNDERSCORE_SUBDOMAIN_FORM,
  SEARCH,
  `'example.com'`,
  SUBDOMAIN_LENGTH,
);
/** A search domain of DNS. */
export const isSearchDomain: Check = formed(SEARCH_FORM, SEARCH, `'example.com'`, SUBDOMAIN_LENGTH);

export const isQualifiedName: Check = qualifiedNameErrors;

/** Any printable ASCII except `=`. */
export const isEnvironmentName: Check = (value) =>
  /^[ -<>-~]+$/.test(value)
    ? []
    : ["a valid environment variable name must consist only of printable ASCII characters other than '='"];

export const isConfigKey: Check = (value) =>
  errorsOf(
    formed(
      CONFIG_KEY_FORM,
      "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
      `'key.name',  or 'KEY_NAME',  or 'key-name'`,
      SUBDOMAIN_LENGTH,
    )(value),
    value === '.' && "must not be '.'",
    value === '..' ? "must not be '..'" : value.startsWith('..') ? ["must not start with '..'"] : [],
  );

export const isPortName: Check = (value) =>
  errorsOf(
    value.length > PORT_NAME_LENGTH && 'must be no more than 15 characters',
    !/^[-a-z0-9]+$/.test(value) && 'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
    !/[a-z]/.test(value) && 'must contain at least one letter (a-z)',
    value.includes('--') && 'must not contain consecutive hyphens',
    /^-|-$/.test(value) && 'must not begin or end with a hyphen',
  );

export const isHeaderName: Check = (value) =>
  /^[-A-Za-z0-9]+$/.test(value)
    ? []
    : [
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
      ];

export function portNumber(path: string, port: number): FieldError[] {
  return port >= 1 && port <= MAX_PORT ? [] : [invalid(path, port, inclusiveRange(1, MAX_PORT))];
}

/** A relative path without `..`. */
export const descendingPath: Check = (value) =>
  errorsOf(value.startsWith('/') && 'must be a relative path', withoutBacksteps(value));

export const withoutBacksteps: Check = (value) => (value.split('/').includes('..') ? ["must not contain '..'"] : []);

/** A path in a volume; names with two leading dots are reserved for the agent. */
export const nonReservedPath: Check = (value) =>
  errorsOf(
    descendingPath(value),
    value.startsWith('..') && !value.startsWith('../') && value !== '..' && "must not start with '..'",
  );
