/**
 * The user and password of a URL are a credential: they are masked before the URL is written anywhere, and sent in a
 * header, as by Go's client.
 */

const LOGIN = /^([A-Za-z][A-Za-z0-9+.-]{0,30}:\/\/)([^/?#]{1,4096})@/;

/** The URL with its login replaced. */
export const withLogin = (url: string, replace: (login: string) => string): string =>
  url.replace(LOGIN, (_, scheme: string, login: string) => `${scheme}${replace(login)}@`);

export const hasLogin = (url: string): boolean => LOGIN.test(url);

/** The URL without its login, and the header `Authorization` that replaces it; `null` without a login. */
export function basicLogin(url: string): { readonly address: string; readonly authorization: string | null } {
  if (!hasLogin(url)) return { address: url, authorization: null };
  const parsed = new URL(url);
  const { username, password } = parsed;
  parsed.username = '';
  parsed.password = '';
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { address: parsed.href, authorization: `Basic ${Buffer.from(login).toString('base64')}` };
}
