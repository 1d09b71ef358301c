/** The token of the visualizer: access for users who can read its file or know it. */
import { randomBytes } from 'node:crypto';
import { lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

const OWNER_ONLY = 0o600;
const TOKEN_BYTES = 24;

export const newToken = (): string => randomBytes(TOKEN_BYTES).toString('base64url');

/** A node keeps its token across starts, so that an open page keeps working. A file readable by others is replaced. */
export function keptToken(path: string): string {
  try {
    const { mode, uid } = lstatSync(path);
    const token = readFileSync(path, 'utf8').trim();
    const isOurs = (mode & 0o7777) === OWNER_ONLY && uid === process.getuid?.();
    if (isOurs && /^[\w-]{32}$/.test(token)) return token;
  } catch {
    // There is no token yet.
  }
  const token = newToken();
  rmSync(path, { force: true });
  writeFileSync(path, `${token}\n`, { mode: OWNER_ONLY, flag: 'wx' });
  return token;
}
