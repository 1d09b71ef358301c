/**
 * Validates settings of authentication, authorization and `--node-ip` that the kubelet's `run()` rejects. Used by the
 * start's step that needs them, and by the validation of settings that upstream reads later.
 *
 * Upstream: cmd/kubelet/app/auth.go, component-helpers/node/util/ips.go.
 */
import { type Parsed, quote } from '../values/go-text.ts';
import { isIpAddress, parseIp } from '../values/ip.ts';

interface AuthSettings {
  readonly webhookAuthentication: boolean;
  readonly authorizationMode: string;
  readonly hasClient: boolean;
}

/** Why authentication or authorization cannot be built, or null. */
export function authRefusal({
  webhookAuthentication,
  authorizationMode: mode,
  hasClient,
}: AuthSettings): string | null {
  if (webhookAuthentication && !hasClient) return 'no client provided, cannot use webhook authentication';
  if (mode === 'Webhook' && !hasClient) return 'no client provided, cannot use webhook authorization';
  if (mode === '') return 'no authorization mode specified';
  return mode === 'AlwaysAllow' || mode === 'Webhook' ? null : `unknown authorization mode ${mode}`;
}

export const family = (address: string): 'IPv4' | 'IPv6' => (parseIp(address)?.family === 6 ? 'IPv6' : 'IPv4');

export const isUnspecified = (address: string): boolean => parseIp(address)?.value === 0n;

const entriesOf = (value: string): string[] => (value === '' ? [] : value.split(',').map((entry) => entry.trim()));

/** The entries of `--node-ip` that are no addresses; they are logged and left out. */
export const invalidNodeAddresses = (value: string): readonly string[] =>
  entriesOf(value).filter((entry) => !isIpAddress(entry));

/** `--node-ip`: unparsable entries are dropped, an invalid combination is rejected. */
export function parseNodeAddresses(value: string, cloudProvider: string): Parsed<readonly string[]> {
  const addresses = entriesOf(value).filter(isIpAddress);
  const refuse = (text: string): Parsed<never> => ({ error: `bad --node-ip ${quote(value)}: ${text}` });
  const [first, second] = addresses;
  if (addresses.length > 2 || (first && second && family(first) === family(second))) {
    return refuse('must contain either a single IP or a dual-stack pair of IPs');
  }
  if (addresses.length < 2) return { value: addresses };
  if (cloudProvider !== '' && cloudProvider !== 'external') {
    return refuse('dual-stack not supported in this configuration');
  }
  return addresses.some(isUnspecified)
    ? refuse("dual-stack node IP cannot include '0.0.0.0' or '::'")
    : { value: addresses };
}
