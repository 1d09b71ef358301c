/** Decides whether the settings for images that were pulled with credentials fit together. */
import { parseImage, repositoryOf } from '../../model/spec/image.ts';
import { quote } from '../../model/values/go-text.ts';
import { isEnabled } from '../fields/feature-gates.ts';
import type { Rule } from './rule.ts';

const PULL_POLICIES = ['NeverVerify', 'NeverVerifyPreloadedImages', 'NeverVerifyAllowlistedImages', 'AlwaysVerify'];

export const pullCredentialErrors: Rule = (c, gates) => {
  const policy = c.imagePullCredentialsVerificationPolicy;
  const patterns = c.preloadedImagesVerificationAllowlist;
  if (!isEnabled(gates, 'KubeletEnsureSecretPulledImages')) {
    const gate = 'must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled';
    return [
      policy !== '' && `\`imagePullCredentialsVerificationPolicy\` ${gate}`,
      patterns.length > 0 && `\`preloadedImagesVerificationAllowlist\` ${gate}`,
    ];
  }
  return [
    !PULL_POLICIES.includes(policy) &&
      `option ${quote(policy)} specified for imagePullCredentialsVerificationPolicy. Valid options are ` +
        '"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages" or "AlwaysVerify"',
    allowlistError(policy, patterns),
  ];
};

function allowlistError(policy: string, patterns: readonly string[]): string | false {
  if (patterns.length > 0 && policy !== 'NeverVerifyAllowlistedImages') {
    return (
      "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not " +
      '"NeverVerifyAllowlistedImages"'
    );
  }
  const wrong = patterns.map(patternError).find((error) => error !== null);
  return wrong !== undefined && `invalid image pattern in \`preloadedImagesVerificationAllowlist\`: ${wrong}`;
}

/** A pattern is the name of a repository, or a path of them that ends in a star. */
function patternError(pattern: string): string | null {
  if (pattern !== pattern.trim()) return `leading/trailing spaces are not allowed: ${pattern}`;
  const isWildcard = pattern.endsWith('/*');
  const name = isWildcard ? pattern.slice(0, -1) : pattern;
  if (name === '') return `the supplied pattern is too short: ${pattern}`;
  if (name.includes('*')) {
    return `not a valid wildcard pattern, only patterns ending with '/*' are allowed: ${pattern}`;
  }
  if (isWildcard) return name === '/' ? 'at least registry hostname is required' : null;
  const parsed = parseImage(name);
  if ('error' in parsed) return `failed to parse as an image name: ${parsed.error}`;
  return repositoryOf(name) === name ? null : `neither tag nor digest is accepted in an image reference: ${pattern}`;
}
