/** The service account tokens that a CSI driver asks for (`tokenRequests` of its CSIDriver). Pure. */
import type { SecretHandle } from '../../../kernel/xstate.ts';
import type { CSIDriverSpec } from '../../model/api/storage.ts';
import type { CSIPod } from '../../model/csi/messages.ts';
import type { IssuedToken } from '../../model/operations/csi.ts';
import { serviceAccountTokenRequest } from '../../model/volumes/tokens.ts';

/** Upstream's default where the driver does not say. */
const EXPIRATION_SECONDS = 3_600;
/** Of its life, after which there is a new one; and the longest that one is kept. */
const REFRESH_SHARE = 0.8;
const REFRESH_MAX_MS = 24 * 3_600_000;

/** By audience; the empty one is the API server's own. */
export type HeldTokens = Readonly<Record<string, { readonly issued: IssuedToken; readonly refreshMs: number }>>;

type Spec = CSIDriverSpec | null;

/** Audiences without a token, or with one that is too old to be handed on. */
export const dueTokens = (spec: Spec, held: HeldTokens, nowMs: number): readonly string[] =>
  (spec?.tokenRequests ?? [])
    .map(({ audience }) => audience)
    .filter((audience) => (held[audience]?.refreshMs ?? 0) <= nowMs);

export function tokenRequestOf(spec: Spec, audience: string, pod: CSIPod) {
  const request = (spec?.tokenRequests ?? []).find((each) => each.audience === audience);
  return serviceAccountTokenRequest(pod, {
    audience,
    expirationSeconds: request?.expirationSeconds ?? EXPIRATION_SECONDS,
  });
}

export interface TokenAnswer {
  readonly status: { readonly token: SecretHandle; readonly expirationTimestamp: string };
}

export function heldToken({ status: { token, expirationTimestamp } }: TokenAnswer, nowMs: number): HeldTokens[string] {
  const lifeMs = Date.parse(expirationTimestamp) - nowMs;
  const issued = { token: { $secret: token.$secret, len: token.len }, expirationTimestamp };
  return { issued, refreshMs: nowMs + Math.min(lifeMs * REFRESH_SHARE, REFRESH_MAX_MS) };
}
