/**
 * Auth: the authentication and authorization of this node's API.
 *
 * Decides: which authenticators and authorizer the configuration requires, and whether they can be built.
 * Owns: nothing; the servers use its answer.
 * Hears: only the answers of its operations.
 * Asks: no operation.
 * Answers: the attributes of authentication and authorization, or upstream's error.
 * Invariants:
 *   A1 a webhook without an API client is an error, never silently skipped.
 *   A2 an unknown mode is an error.
 * Seeds: S064, S065. Upstream: cmd/kubelet/app/auth.go.
 */
import { setup, typed } from '../../../kernel/xstate.ts';
import { authRefusal } from '../../model/configuration/run-refusals.ts';
import type { Answer } from '../context/types.ts';

export interface AuthInput {
  readonly anonymous: boolean;
  readonly webhookAuthentication: boolean;
  readonly clientCAFile: string;
  readonly authorizationMode: string;
  readonly hasClient: boolean;
}

export interface AuthSettings {
  readonly anonymous: boolean;
  readonly clientCAFile: string;
  readonly authorization: 'AlwaysAllow' | 'Webhook';
}

/** The decision of upstream's BuildAuth. */
export function buildAuth(input: AuthInput): Answer<AuthSettings> {
  const message = authRefusal(input);
  if (message !== null) return { ok: false, message };
  return {
    ok: true,
    value: {
      anonymous: input.anonymous,
      clientCAFile: input.clientCAFile,
      authorization: input.authorizationMode === 'Webhook' ? 'Webhook' : 'AlwaysAllow',
    },
  };
}

export const authMachine = setup({
  types: typed<{ input: AuthInput; context: AuthInput; output: Answer<AuthSettings> }>(),
  guards: { isBuildable: ({ context }) => buildAuth(context).ok },
}).createMachine({
  id: 'auth',
  context: ({ input }) => input,
  initial: 'building',
  states: {
    building: { always: [{ guard: 'isBuildable', target: 'built' }, { target: 'refused' }] },
    built: { type: 'final' },
    refused: { type: 'final' },
  },
  output: ({ context }) => buildAuth(context),
});

/** Largest bundle of client authorities that is read, in bytes: a few hundred certificates. */
export const CLIENT_CA_MAX_BYTES = 1_048_576;

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/;

/**
 * Upstream's error for a file of client authorities that is missing (`null`) or holds no certificate; empty without an
 * error. Upstream reads the file when it builds the authenticator; the server reads it again and follows its changes.
 */
export function clientCARefusal(path: string, content: string | null): string {
  if (content === null) return `open ${path}: no such file or directory`;
  if (CERTIFICATE.test(content)) return '';
  return (
    `error loading CA bundle for ${JSON.stringify(`client-ca-bundle::${path}`)}: ` +
    'data does not contain any valid RSA or ECDSA certificates'
  );
}
