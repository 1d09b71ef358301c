/**
 * A token of a pod's service account (`token-<n>` below its pod), for a projected volume.
 *
 * Decides: when a new token is requested: after 80 % of the lifetime of the last one or a day, as upstream, minus
 *   jitter so that many pods do not request at once.
 * Owns: the times between which the newest token is valid. Never the token: that is a handle.
 * Hears: only the answers of its operations.
 * Asks: `kube.create` of `serviceaccounts/token`, bound to the pod.
 * Sends: its pod `object.found`.
 * Invariants:
 *   N1 the pod keeps a token for as long as it is valid, whatever the API server answers.
 *   N2 without a valid token the pod is sent the reason.
 */

import type { Ended, SecretHandle } from '../../../../kernel/xstate.ts';
import { errorOf, now, outputOf, pick, random, sendParent, setup, typed } from '../../../../kernel/xstate.ts';
import type { PodRef } from '../../../model/api/pod.ts';
import type { ObjectFound } from '../../../model/objects/keys.ts';
import { type KubeObject, kubeOperations } from '../../../model/operations/kube.ts';
import { type BackOff, OPERATION_BACK_OFF, pauseMs } from '../../../model/values/time.ts';
import { serviceAccountTokenRequest, type TokenSource } from '../../../model/volumes/credentials.ts';

const REFRESH_SHARE = 0.8;
const REFRESH_MAX_MS = 24 * 3_600_000;
/** Upstream's period of checking whether a token is due. */
const REFRESH_MIN_MS = 60_000;
const JITTER_MS = 10_000;
const RETRY: BackOff = { ...OPERATION_BACK_OFF, jitter: 0.5 };
const SECOND_MS = 1_000;

export interface TokenInput {
  readonly pod: PodRef;
  readonly key: string;
  readonly serviceAccount: string;
  readonly source: TokenSource;
}

interface Context extends TokenInput {
  readonly expiresMs: number;
  readonly refreshMs: number;
  readonly failures: number;
  readonly untilMs: number;
}

const s = setup({
  types: typed<{ input: TokenInput; context: Context; events: Ended }>(),
  actors: pick(kubeOperations, 'kube.create'),
  delays: {
    refresh: (args) => Math.max(0, args.context.refreshMs - now(args)),
    retry: (args) => Math.max(0, args.context.untilMs - now(args)),
  },
});

interface TokenAnswer extends KubeObject {
  /** The API server may grant a shorter lifetime than requested. */
  readonly spec?: { readonly expirationSeconds?: number };
  readonly status: { readonly token: SecretHandle & Record<string, never>; readonly expirationTimestamp: string };
}

const storeToken = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { spec, status } = outputOf<TokenAnswer>(event);
  const nowMs = now(args);
  const expiresMs = Date.parse(status.expirationTimestamp);
  const issuedMs = expiresMs - (spec?.expirationSeconds ?? context.source.expirationSeconds) * SECOND_MS;
  const dueMs = Math.min(issuedMs + (expiresMs - issuedMs) * REFRESH_SHARE, issuedMs + REFRESH_MAX_MS);
  const refreshMs = Math.max(nowMs + REFRESH_MIN_MS, dueMs - JITTER_MS * random(args));
  enqueue.assign({ expiresMs, refreshMs, failures: 0 });
  const { key, pod } = context;
  const token: SecretHandle = { $secret: status.token.$secret, len: status.token.len };
  const object = {
    kind: 'Token',
    namespace: pod.namespace,
    name: context.serviceAccount,
    version: token.$secret,
    data: { token: { text: token }, expires: { text: status.expirationTimestamp } },
  } as const;
  enqueue(sendParent({ type: 'object.found', key, uids: [pod.uid], state: 'found', object } satisfies ObjectFound));
});

const noteFailure = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const error = errorOf(event);
  const pause = pauseMs(RETRY, context.failures, random(args));
  const nowMs = now(args);
  enqueue.assign({ failures: context.failures + 1, untilMs: nowMs + Math.max(pause, error.retryAfterMs ?? 0) });
  if (nowMs < context.expiresMs) return;
  const { key, pod } = context;
  const message = `failed to fetch token: ${error.message}`;
  enqueue(sendParent({ type: 'object.found', key, uids: [pod.uid], state: 'unknown', message } satisfies ObjectFound));
});

export const serviceAccountTokenMachine = s.createMachine({
  id: 'serviceAccountToken',
  context: ({ input }) => ({ ...input, expiresMs: 0, refreshMs: 0, failures: 0, untilMs: 0 }),
  initial: 'requesting',
  states: {
    requesting: {
      invoke: {
        id: 'request',
        src: 'kube.create',
        input: ({ context }) => ({
          client: 'kube',
          apiVersion: 'v1',
          resource: 'serviceaccounts',
          namespace: context.pod.namespace,
          name: context.serviceAccount,
          subresource: 'token',
          body: serviceAccountTokenRequest(context.pod, context.source),
        }),
        onDone: { target: 'good', actions: storeToken },
        onError: { target: 'backingOff', actions: noteFailure },
      },
    },
    /** Waits until the next token is due. */
    good: { after: { refresh: 'requesting' } },
    backingOff: { after: { retry: 'requesting' } },
  },
});
