/**
 * Which logins fit a repository, most specific first. Pure.
 *
 * Invariant: the order is upstream's, because each is tried until a registry accepts one.
 */
import type { Login, Logins } from './docker-config.ts';
import { matches, parseRegistryUrl } from './registry-url.ts';

const DEFAULT_REGISTRY = 'index.docker.io';

/** A login and who brought it. */
export interface Held<Source> {
  readonly login: Login;
  readonly source: Source;
}

export class Keyring<Source> {
  /** By registry, without scheme and without the version of its API. */
  readonly #held = new Map<string, Held<Source>[]>();

  /** A registry that is no URL is left out, as docker does. */
  add(logins: Logins, source: Source): void {
    for (const [registry, login] of Object.entries(logins)) {
      const key = keyOf(registry);
      if (key !== null) this.#held.set(key, [...(this.#held.get(key) ?? []), { login, source }]);
    }
  }

  /** `repository` as in `docker.io/library/busybox`. */
  lookup(repository: string): readonly Held<Source>[] {
    const keys = [...this.#held.keys()].sort().toReversed();
    const found = keys.filter((key) => matches(key, repository)).flatMap((key) => this.#held.get(key) ?? []);
    if (found.length > 0 || !isDefaultRegistry(repository)) return found;
    return this.#held.get(DEFAULT_REGISTRY) ?? [];
  }
}

function keyOf(registry: string): string | null {
  const parsed = parseRegistryUrl(registry.replace(/^https?:\/\//, ''));
  if (parsed.error !== undefined) return null;
  const path = parsed.value.path.replace(/^\/v[12]\//, '/');
  return path === '/' ? parsed.value.host : `${parsed.value.host}${path}`;
}

/** Without a dot or a port the first part of a name is no registry. */
function isDefaultRegistry(repository: string): boolean {
  const [first = '', ...rest] = repository.split('/');
  if (first === '') return false;
  return rest.length === 0 || first === 'docker.io' || first === DEFAULT_REGISTRY || !/[.:]/.test(first);
}
