/**
 * The ResourceClaims of one pod, from their names to their devices, before its sandbox is created.
 *
 * Decides: whether the pod may have the claims that it names.
 * Owns: the claims that were read, until it ends with what drivers prepared.
 * Hears: `claims.recorded` and `claims.refused` of `draManager`.
 * Asks: `kube.get` of each claim, then `dra.prepare`.
 * Sends: `draManager` `claims.fetched`.
 * Invariants:
 *   E1 no driver is called before the checkpoint names the pod, so that claims are unprepared even after a crash.
 *   E2 the first problem ends it; a pod that may not have its claims is not recorded.
 * Upstream: pkg/kubelet/cm/dra/manager.go (prepareResources).
 */

import type { Ended, JsonObject } from '../../../../kernel/xstate.ts';
import { assign, errorOf, outputOf, pick, sendParent, setup, typed } from '../../../../kernel/xstate.ts';
import { claimVerdict } from '../../../model/dra/claims.ts';
import type { ClaimVerdict, ClaimWanted, FetchedClaim } from '../../../model/dra/messages.ts';
import { type DraCall, type DraPrepared, draOperations } from '../../../model/operations/dra.ts';
import { kubeOperations } from '../../../model/operations/kube.ts';

const CLAIMS_API = { client: 'kube', apiVersion: 'resource.k8s.io/v1', resource: 'resourceclaims' } as const;

export interface ClaimPreparationInput {
  readonly uid: string;
  readonly namespace: string;
  readonly pod: string;
  readonly wanted: readonly ClaimWanted[];
}

export type ClaimsFetched = {
  readonly type: 'claims.fetched';
  readonly uid: string;
  readonly namespace: string;
  readonly claims: readonly FetchedClaim[];
};

export interface ClaimPreparationOutput {
  readonly uid: string;
  /** Empty if all claims are prepared. */
  readonly error: string;
  readonly prepared: readonly DraPrepared[];
}

interface Context extends ClaimPreparationInput {
  readonly claims: readonly FetchedClaim[];
  readonly calls: readonly DraCall[];
  readonly prepared: readonly DraPrepared[];
  readonly error: string;
}

const s = setup({
  types: typed<{
    input: ClaimPreparationInput;
    context: Context;
    events: ClaimVerdict | Ended;
    output: ClaimPreparationOutput;
  }>(),
  actors: { ...pick(kubeOperations, 'kube.get'), ...pick(draOperations, 'dra.prepare') },
  guards: {
    isRefused: ({ context }) => context.error !== '',
    hasAll: ({ context }) => context.claims.length === context.wanted.length,
    needsNoCalls: ({ context }) => context.calls.length === 0,
  },
});

const nextName = ({ wanted, claims }: Context): string => wanted[claims.length]?.name ?? '';

const handleClaim = s.assign(({ context, event }) => {
  const next = context.wanted[context.claims.length];
  if (next === undefined) return {};
  const claim = claimVerdict(outputOf<JsonObject>(event), next, context);
  return 'error' in claim ? { error: claim.error } : { claims: [...context.claims, claim] };
});

export const claimPreparationMachine = s.createMachine({
  id: 'claimPreparation',
  context: ({ input }) => ({ ...input, claims: [], calls: [], prepared: [], error: '' }),
  initial: 'fetching',
  states: {
    fetching: {
      meta: { waitsFor: 'the API server to say what the claims of the pod are' },
      always: [
        { guard: 'isRefused', target: 'ended' },
        { guard: 'hasAll', target: 'recording' },
      ],
      invoke: {
        id: 'claim',
        src: 'kube.get',
        input: ({ context }) => ({ ...CLAIMS_API, namespace: context.namespace, name: nextName(context) }),
        onDone: { target: 'fetching', reenter: true, actions: handleClaim },
        onError: {
          target: 'ended',
          actions: assign({
            error: ({ context, event }) => `fetch ResourceClaim ${nextName(context)}: ${errorOf(event).message}`,
          }),
        },
      },
    },
    recording: {
      meta: { waitsFor: 'the checkpoint to name the pod' },
      entry: sendParent(({ context: { uid, namespace, claims } }) => ({
        type: 'claims.fetched',
        uid,
        namespace,
        claims,
      })),
      on: {
        'claims.recorded': { target: 'preparing', actions: assign({ calls: ({ event }) => event.calls }) },
        'claims.refused': { target: 'ended', actions: assign({ error: ({ event }) => event.error }) },
      },
    },
    preparing: {
      meta: { waitsFor: 'the resource drivers to prepare the claims of the pod' },
      always: { guard: 'needsNoCalls', target: 'ended' },
      invoke: {
        id: 'prepare',
        src: 'dra.prepare',
        input: ({ context }) => ({ calls: context.calls }),
        onDone: { target: 'ended', actions: assign({ prepared: ({ event }) => event.output.prepared }) },
        onError: { target: 'ended', actions: assign({ error: ({ event }) => errorOf(event).message }) },
      },
    },
    ended: { type: 'final' },
  },
  output: ({ context: { uid, error, prepared } }) => ({ uid, error, prepared }),
});
