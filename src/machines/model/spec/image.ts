/**
 * Image names and the default pull policy.
 *
 * References are parsed by the distribution grammar.
 */
import type { Container } from '../api/pod.ts';

export type PullPolicy = 'Always' | 'IfNotPresent' | 'Never';

const DOMAIN_COMPONENT = /^(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])$/;
const IPV6_DOMAIN = /^\[[a-fA-F0-9:]+\](?::\d+)?$/;
const PATH_COMPONENT = /^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$/;
const IDENTIFIER = /^[a-f0-9]{64}$/;
/** Characters of a repository name; from the distribution specification. */
const MAX_NAME_LENGTH = 255;

const INVALID = 'invalid reference format';

interface Reference {
  readonly name: string;
  readonly tag: string;
  readonly digest: string;
}

/** Registry domains whose one-part names belong to `library`. */
const HUB = ['docker.io', 'index.docker.io'];

/** Parses an image name; the error is the text of upstream's parser. */
export function parseImage(image: string): Reference | { readonly error: string } {
  if (IDENTIFIER.test(image)) {
    return {
      error: `invalid repository name (${image}), cannot specify 64-byte hexadecimal strings`,
    };
  }
  const [named = '', digest = '', ...more] = image.split('@');
  if (more.length > 0 || (image.includes('@') && !DIGEST.test(digest))) return { error: INVALID };
  const colon = named.lastIndexOf(':');
  const hasTag = colon > named.lastIndexOf('/');
  const name = hasTag ? named.slice(0, colon) : named;
  const tag = hasTag ? named.slice(colon + 1) : '';
  if (hasTag && !TAG.test(tag)) return { error: nameError(named) ?? INVALID };
  const error = nameError(name);
  return error === null ? { name, tag, digest } : { error };
}

function nameError(name: string): string | null {
  const { domain, path } = partsOf(name);
  const remote = path.join('/').split(':', 1)[0] ?? '';
  if (remote.toLowerCase() !== remote) {
    const isOfficial = (domain === null || HUB.includes(domain)) && path.length === 1;
    return `${INVALID}: repository name (${isOfficial ? 'library/' : ''}${remote}) must be lowercase`;
  }
  if (domain !== null && !isDomainName(domain)) return INVALID;
  if (!path.every((component) => PATH_COMPONENT.test(component))) return INVALID;
  if (path.join('/').length > MAX_NAME_LENGTH) return 'repository name must not be more than 255 characters';
  return null;
}

/** The first component names a registry if it looks like a host; otherwise the name has no domain. */
function partsOf(name: string): { readonly domain: string | null; readonly path: readonly string[] } {
  const [first = '', ...rest] = name.split('/');
  const isDomain = rest.length > 0 && (/[.:]/.test(first) || first === 'localhost' || first.toLowerCase() !== first);
  return isDomain ? { domain: first, path: rest } : { domain: null, path: [first, ...rest] };
}

function isDomainName(domain: string): boolean {
  if (domain.startsWith('[')) return IPV6_DOMAIN.test(domain);
  const [host = '', port] = domain.split(':');
  return host.split('.').every((part) => DOMAIN_COMPONENT.test(part)) && (port === undefined || /^\d+$/.test(port));
}

/** The name for requests to the runtime: with `:latest` if it has neither tag nor digest. Expects a valid name. */
export function imageWithTag(image: string): string {
  const reference = parseImage(image);
  return 'error' in reference || reference.tag !== '' || reference.digest !== '' ? image : `${image}:latest`;
}

/** The name of an image as written, without tag and digest: `busybox`. Expects a valid name. */
export function nameOf(image: string): string {
  const reference = parseImage(image);
  return 'error' in reference ? image : reference.name;
}

/** The full name of a repository, without tag and digest: `docker.io/library/busybox`. Expects a valid name. */
export function repositoryOf(image: string): string {
  const name = nameOf(image);
  const { domain, path } = partsOf(name);
  if (domain !== null && !HUB.includes(domain)) return name;
  return path.length > 1 ? `docker.io/${path.join('/')}` : `docker.io/library/${path.join('/')}`;
}

/** The container's policy, or the API's default: `latest` is always pulled. */
export function pullPolicy(container: Pick<Container, 'image' | 'imagePullPolicy'>): PullPolicy {
  const { imagePullPolicy: policy } = container;
  if (policy === 'Always' || policy === 'IfNotPresent' || policy === 'Never') return policy;
  const reference = parseImage(container.image ?? '');
  if ('error' in reference || reference.digest !== '') return 'IfNotPresent';
  return reference.tag === '' || reference.tag === 'latest' ? 'Always' : 'IfNotPresent';
}
