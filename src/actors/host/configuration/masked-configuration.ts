/**
 * Masks the credentials of a configuration file before it reaches machines, journal, log and visualizer.
 *
 * The header values for the manifest URL, and the login in the URL itself, are credentials: they are dropped, or
 * replaced by names of handles for the port that sends them. Invariants: every value below the field, at any depth and
 * in any letter case of its name, is masked and keeps its type, so that validation fails with the same message; the
 * same text elsewhere in the document (a YAML anchor) is masked as well; the raw text of a document that names the
 * field is never passed on, because a value can be spelled in many ways.
 */

import { isObject, type Json } from '../../../kernel/json.ts';
import { MASKED } from '../../../machines/configuration/fields/decode.ts';
import type { ConfigurationSource, DropInListing } from '../../../machines/model/operations/host.ts';
import { isNumber } from '../../../machines/model/values/json-document.ts';
import { hasLogin, withLogin } from '../../urls.ts';

const SECRET_FIELD = /^staticpodurlheader$/i;
const NAMES_SECRET_FIELD = /staticpodurlheader/i;
const URL_FIELD = /^staticpodurl$/i;

/** Replaces a credential by its mask. */
export type HideValue = (value: string) => string;

const mask: HideValue = () => MASKED;

export function masked(source: ConfigurationSource, hide: HideValue = mask): ConfigurationSource {
  if (source.kind !== 'document') return source;
  const secrets = new Set<Json>();
  collect(source.value, false, secrets);
  const isNamed = secrets.size > 0 || NAMES_SECRET_FIELD.test(source.text ?? '');
  if (!isNamed) return source;
  const value = withoutSecrets(source.value, false, { secrets, hide });
  return { ...source, value, text: source.text === null ? null : JSON.stringify(value) };
}

export function maskedDropIns(listing: DropInListing, hide: HideValue = mask): DropInListing {
  if (listing.kind !== 'files') return listing;
  return { ...listing, files: listing.files.map((file) => masked(file, hide)) };
}

function collect(value: Json | undefined, isSecret: boolean, secrets: Set<Json>): void {
  if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      if (URL_FIELD.test(key) && typeof item === 'string' && hasLogin(item)) secrets.add(item);
      collect(item, isSecret || SECRET_FIELD.test(key), secrets);
    }
  } else if (Array.isArray(value)) {
    for (const item of value) collect(item, isSecret, secrets);
  } else if (isSecret && (typeof value === 'string' || typeof value === 'number')) secrets.add(value);
}

interface MaskOptions {
  readonly secrets: ReadonlySet<Json>;
  readonly hide: HideValue;
}

function ofField(key: string, item: Json | undefined, isSecret: boolean, hiding: MaskOptions): Json {
  const isUrl = URL_FIELD.test(key) && typeof item === 'string' && hasLogin(item);
  return isUrl ? withLogin(item, hiding.hide) : withoutSecrets(item, isSecret || SECRET_FIELD.test(key), hiding);
}

function withoutSecrets(value: Json | undefined, isSecret: boolean, hiding: MaskOptions): Json {
  if (isObject(value)) {
    const entries = Object.entries(value).map(([key, item]) => [key, ofField(key, item, isSecret, hiding)] as const);
    return Object.fromEntries(entries);
  }
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, isSecret, hiding));
  if (typeof value === 'string') {
    if (isSecret) return isNumber(value) ? 0 : hiding.hide(value);
    return value !== '' && hiding.secrets.has(value) ? MASKED : value;
  }
  return typeof value === 'number' && isSecret ? 0 : (value ?? null);
}
