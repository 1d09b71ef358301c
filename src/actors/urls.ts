/**
 * The proxy for a URL according to the environment, as Go's http.ProxyFromEnvironment, and logins in URLs.
 *
 * `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or the same in lower case. `NO_PROXY` is a list of domains (with their
 * subdomains; with a leading dot or `*.` only the subdomains), addresses and networks, each with or without port; `*`
 * matches all. No proxy is used for this machine itself.
 *
 * The user and password of a URL are a credential: they are masked before the URL is written anywhere, and sent in a
 * header, as by Go's client.
 */
import { BlockList, isIP } from 'node:net';

type Environment = Readonly<Record<string, string | undefined>>;

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

export function environmentProxy(url: string, environment: Environment = process.env): string | undefined {
  const { protocol, hostname, port } = new URL(url);
  const valueOf = (name: string): string => environment[name] || environment[name.toLowerCase()] || '';
  const proxy = valueOf(protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY');
  const host = hostname.replace(/^\[|\]$/g, '').toLowerCase();
  if (proxy === '' || isThisMachine(host)) return undefined;
  const exceptions = valueOf('NO_PROXY')
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .filter((entry) => entry !== '');
  if (exceptions.some((entry) => matchesEntry(entry, host, port || (DEFAULT_PORTS[protocol] ?? '')))) return undefined;
  return /^[a-z0-9]+:\/\//i.test(proxy) ? proxy : `http://${proxy}`;
}

const isThisMachine = (host: string): boolean => host === 'localhost' || host === '::1' || /^127\.[\d.]+$/.test(host);

function matchesEntry(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  if (entry.includes('/')) return isInside(entry, host);
  const { name, ofPort } = split(entry);
  if (ofPort !== undefined && ofPort !== port) return false;
  if (isIP(name) !== 0) return name === host;
  const domain = name.replace(/^\*/, '');
  return domain.startsWith('.') ? host.endsWith(domain) : host === domain || host.endsWith(`.${domain}`);
}

function split(entry: string): { readonly name: string; readonly ofPort?: string | undefined } {
  if (isIP(entry) !== 0) return { name: entry };
  const [, bracketed, plain, ofPort] = /^(?:\[(.+)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [];
  return { name: bracketed ?? plain ?? entry, ofPort };
}

function isInside(network: string, host: string): boolean {
  const [address = '', bits] = network.split('/');
  if (isIP(host) === 0 || isIP(address) !== isIP(host)) return false;
  const [family, prefix] = [isIP(host) === 4 ? 'ipv4' : 'ipv6', Number(bits)] as const;
  if (!/^\d+$/.test(bits ?? '') || prefix > (family === 'ipv4' ? 32 : 128)) return false;
  const list = new BlockList();
  list.addSubnet(address, prefix, family);
  return list.check(host, family);
}

const LOGIN = /^([A-Za-z][A-Za-z0-9+.-]{0,30}:\/\/)([^/?#]{1,4096})@/;

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
