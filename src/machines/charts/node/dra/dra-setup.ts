/** Types and helpers of `draManager`: events, children, answers. The chart is in `dra-manager.ts`. */
import { type Ended, pick, setup, to, typed } from '../../../../kernel/xstate.ts';
import type { PodsKnown } from '../../../model/allocation/messages.ts';
import { CLAIM_STATE_FILE } from '../../../model/dra/claim-state.ts';
import type { ClaimHealth, ClaimReport, ClaimRequest, DraPluginMessage } from '../../../model/dra/messages.ts';
import type { DraCall } from '../../../model/operations/dra.ts';
import { hostOperations } from '../../../model/operations/host.ts';
import { podActor } from '../../../model/pods/pod-messages.ts';
import { type ClaimCache, type Drivers, healthFor } from './claim-cache.ts';
import { type ClaimsFetched, claimPreparationMachine } from './claim-preparation.ts';
import { claimReleaseMachine } from './claim-release.ts';
import { type DraDriverReport, draDriverMachine } from './dra-driver.ts';
import { sliceRemovalMachine } from './slice-removal.ts';

export interface DraManagerInput {
  readonly rootDir: string;
  readonly nodeName: string;
  /** Whether there is a cluster, and so ResourceClaims and ResourceSlices. */
  readonly inCluster: boolean;
}

/** Requests that wait until the checkpoint is written. */
export type Waiting =
  | { readonly kind: 'recorded'; readonly uid: string; readonly calls: readonly DraCall[] }
  | { readonly kind: 'prepared'; readonly uid: string }
  | { readonly kind: 'unprepared'; readonly uid: string };

/** The release of one pod's claims in progress. */
export interface Release {
  /** Whether the pod waits for the release. */
  readonly isAwaited: boolean;
}

export interface DraManagerContext extends DraManagerInput {
  readonly drivers: Drivers;
  /** By actor of a registration, its driver and socket. */
  readonly followed: Readonly<Record<string, { readonly driver: string; readonly endpoint: string }>>;
  readonly cache: ClaimCache;
  /** By driver, the health of its devices, by `pool/device`. */
  readonly health: Readonly<Record<string, ClaimHealth>>;
  /** By uid of a pod. */
  readonly releases: Readonly<Record<string, Release>>;
  /** Uids of pods that are gone and still have claims here. */
  readonly abandoned: readonly string[];
  readonly waiting: readonly Waiting[];
  /** The waiting requests that the write in progress covers. */
  readonly covered: readonly Waiting[];
  /** The checkpoint is older than the state. */
  readonly isStale: boolean;
  /** The number of actors so far, for names that are never reused. */
  readonly spawned: number;
}

export type DraManagerEvent =
  | ClaimRequest
  | DraPluginMessage
  | DraDriverReport
  | ClaimsFetched
  | PodsKnown
  | { readonly type: 'slices.expired'; readonly driver: string }
  | { readonly type: 'drivers.missed' }
  | Ended;

export const draSetup = setup({
  types: typed<{ input: DraManagerInput; context: DraManagerContext; events: DraManagerEvent }>(),
  actors: {
    preparation: claimPreparationMachine,
    release: claimReleaseMachine,
    driver: draDriverMachine,
    slices: sliceRemovalMachine,
    ...pick(hostOperations, 'host.readCheckpoints', 'host.writeCheckpoint'),
  },
  guards: {
    isStale: ({ context }) => context.isStale,
    isAwaited: ({ context }) => context.waiting.length > 0,
    hasAbandoned: ({ context }) => context.abandoned.length > 0,
  },
});

export type DraArgs = Parameters<Parameters<typeof draSetup.enqueueActions>[0]>[0];
export type DraEnqueue = DraArgs['enqueue'];

export const stateFile = ({ rootDir }: DraManagerInput): string => `${rootDir}/${CLAIM_STATE_FILE}`;

export function answerPod(enqueue: DraEnqueue, uid: string, report: ClaimReport): void {
  enqueue.sendTo(to(podActor(uid)), report);
}

/** By `driver/pool/device`, the health that a pod's status needs. */
export function podHealth({ cache, health }: DraManagerContext, uid: string): ClaimHealth {
  const all = Object.entries(health).flatMap(([driver, devices]) =>
    Object.entries(devices).map(([key, report]) => [`${driver}/${key}`, report] as const),
  );
  return healthFor(cache, uid, Object.fromEntries(all));
}
