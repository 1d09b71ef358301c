/**
 * Values of Secrets as machines have them: handles of text, or of bytes that are no text. A container may have both as
 * variables.
 *
 * Invariant: bytes are sealed for variables as base64 behind a NUL, which the text of a variable cannot contain, so
 * their handle differs from the handle of every text.
 */
import type { SecretHandle, Vault } from '../kernel/journal/secrets.ts';

const MARK = '\0base64,';

type SealedContent =
  | { readonly text: SecretHandle }
  | { readonly base64: SecretHandle; readonly variable: SecretHandle };

export function sealedContent(bytes: Buffer, vault: Vault): SealedContent {
  const text = bytes.toString('utf8');
  if (Buffer.from(text).equals(bytes)) return { text: vault.seal(text) };
  const encoded = bytes.toString('base64');
  return { base64: vault.seal(encoded), variable: vault.seal(`${MARK}${encoded}`) };
}

/** The bytes behind a handle for variables; `null` if its value is text. */
export const bytesIn = (value: string): Buffer | null =>
  value.startsWith(MARK) ? Buffer.from(value.slice(MARK.length), 'base64') : null;
