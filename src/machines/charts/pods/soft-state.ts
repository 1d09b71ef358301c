/**
 * The soft state of this node: facts that neither the runtime nor the API server keeps, stored across restarts of the
 * agent.
 *
 * Decides: when to write.
 * Owns: restart counts, back-offs and results of probes by container, back-offs of pulls; grants, rejections with their
 *   reasons, the resources of running instances during a resize, and the kubelet's state files of grants and resizes.
 * Hears: `softState.noted` and `softState.begun` of containers, `softState.pulled` of images, `softState.probed` and
 *   `softState.resized` of pods, `softState.allocated` and `softState.rejected` of `allocation`, `softState.forgotten`
 *   and `pods.known` of `pods`, `softState.wanted` of both.
 * Asks: `host.loadSoftState` once, `host.saveSoftState` after changes.
 * Sends: the root and `pods` `softState.loaded`.
 * Invariants:
 *   M1 at most one write is in progress; later changes are written by the next one.
 *   M2 unreadable soft state counts as empty: pods start, and the error is reported.
 *   M3 nothing is written before the file was read, so that a slow disk never loses state.
 *   M4 no back-off becomes longer than when it was recorded, even if the clock of the machine was set back.
 *   M5 exclusive resources of pods (CPUs, memory of chosen NUMA nodes, devices) are written at once, so that an agent
 *      that was killed does not give them to another pod after its restart.
 */

import type { Ended } from '../../../kernel/xstate.ts';
import { errorOf, line, now, outputOf, pick, sendParent, sendTo, setup, to, typed } from '../../../kernel/xstate.ts';
import { hostOperations, type SoftState } from '../../model/operations/host.ts';
import type { SoftStateMessage } from '../../model/pods/pod-messages.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';
import { mapValues, pickBy, pickKeys } from '../../model/values/tables.ts';
import { PULL_QUIET_MS } from '../images/image-setup.ts';

/**
 * Changes are collected for this long: a crash of the agent loses at most these, and a burst of restarts costs one
 * write.
 */
const GATHER_MS = 1_000;
/** The pause before a failed write is retried. */
const RETRY_MS = 30_000;

export type SoftStateInput = Pick<NodeSettings, 'behavior' | 'rootDir' | 'makesPodCgroups' | 'softStateFile'>;

interface Context {
  readonly path: string;
  /** The folder of the kubelet's own files; absent: they are not kept. */
  readonly rootDir?: string;
  readonly state: SoftState;
  /** The state changed since the last write began. */
  readonly isDirty: boolean;
  /** The change must be written without waiting for others. */
  readonly isUrgent: boolean;
}

const s = setup({
  types: typed<{ input: SoftStateInput; context: Context; events: SoftStateMessage | Ended }>(),
  actors: pick(hostOperations, 'host.loadSoftState', 'host.saveSoftState'),
  guards: { isDirty: ({ context }) => context.isDirty, isUrgent: ({ context }) => context.isUrgent },
});

/** Sets one entry of a table. */
const noteContainer = s.assign(({ context: { state }, event }) => {
  switch (event.type) {
    case 'softState.noted':
      return changed(state, { containers: { ...state.containers, [event.key]: event.container } });
    case 'softState.begun':
      return changed(state, { begun: { ...state.begun, [event.key]: event.restartCount } });
    case 'softState.probed':
      return changed(state, { probes: { ...state.probes, [event.key]: event.probed } });
    case 'softState.rejected':
      return changed(state, { rejections: { ...state.rejections, [event.uid]: event.rejection } });
    default:
      return {};
  }
});

const changed = (state: SoftState, tables: Partial<SoftState>) => ({ state: { ...state, ...tables }, isDirty: true });

/** A pull may end after its pod is gone: expired back-offs are dropped. */
const notePull = s.assign((args) => {
  const { context, event } = args;
  if (event.type !== 'softState.pulled') return {};
  const pulls = pickBy(
    context.state.pulls ?? {},
    ({ untilMs }, key) => key !== event.key && now(args) - untilMs <= PULL_QUIET_MS,
  );
  if (event.pull !== null) pulls[event.key] = event.pull;
  return changed(context.state, { pulls });
});

const noteGrant = s.assign(({ context, event }) => {
  if (event.type !== 'softState.allocated') return {};
  const { cpus, memory, devices } = event.grant;
  const isUrgent = context.isUrgent || [cpus, memory, devices].some((held) => held !== undefined);
  const grants = { ...context.state.grants, [event.uid]: event.grant };
  return { ...changed(withoutHandedOver(context.state, event.uid), { grants }), isUrgent };
});

function withoutHandedOver(state: SoftState, uid: string): SoftState {
  const { handedOver, ...rest } = state;
  if (handedOver === undefined) return state;
  const { [uid]: _granted, ...others } = handedOver;
  return Object.keys(others).length === 0 ? rest : { ...rest, handedOver: others };
}

/** Notes the resources in effect while a resize is in progress; a message with `null` ends it. */
const noteResize = s.assign(({ context, event }) => {
  if (event.type !== 'softState.resized') return {};
  const { [event.uid]: _before, ...others } = context.state.resizes ?? {};
  const resizes = event.actuated === null ? others : { ...others, [event.uid]: event.actuated };
  return changed(context.state, { resizes });
});

/** Keys of tables are a pod's uid, optionally followed by the name of a container or image. */
function uidIn(key: string): string {
  const end = key.indexOf('/');
  return end === -1 ? key : key.slice(0, end);
}

/** The entries of the kept pods; the table itself if it has no others, which saves a copy at each end of a pod. */
function ofPodsIn<Value>(
  table: Readonly<Record<string, Value>>,
  isKept: (uid: string) => boolean,
): Readonly<Record<string, Value>> {
  const isWhole = Object.keys(table).every((key) => isKept(uidIn(key)));
  return isWhole ? table : pickKeys(table, (key) => isKept(uidIn(key)));
}

/** The soft state of the kept pods only; `null` if it has no others. */
function ofPods(state: SoftState, isKept: (uid: string) => boolean): SoftState | null {
  const only = <Value>(table: Readonly<Record<string, Value>> = {}) => ofPodsIn(table, isKept);
  const kept = {
    containers: only(state.containers),
    begun: only(state.begun),
    probes: only(state.probes),
    pulls: only(state.pulls),
    grants: only(state.grants),
    resizes: only(state.resizes),
    ...(state.handedOver === undefined ? {} : { handedOver: only(state.handedOver) }),
    rejections: only(state.rejections),
  };
  const isUnchanged = Object.entries(state).every(
    ([name, table]) => table === kept[name as keyof typeof kept] || Object.keys(table).length === 0,
  );
  return isUnchanged ? null : kept;
}

const forgetPod = s.assign(({ context, event }) => {
  if (event.type !== 'softState.forgotten') return {};
  const state = ofPods(context.state, (uid) => uid !== event.uid);
  return state === null ? {} : { state, isDirty: true };
});

/** Forgets pods that are gone, including facts recorded after a pod was forgotten. */
const forgetGonePods = s.assign(({ context, event }) => {
  if (event.type !== 'pods.known') return {};
  const known = new Set(event.uids);
  const state = ofPods(context.state, (uid) => known.has(uid));
  return state === null ? {} : { state, isDirty: true };
});

function withShortenedBackOffs(state: SoftState, nowMs: number): SoftState {
  const containers = mapValues(state.containers, (container) => ({
    ...container,
    backoffUntilMs: Math.min(container.backoffUntilMs, nowMs + container.backoffMs),
  }));
  const pulls = mapValues(state.pulls ?? {}, (pull) => ({
    ...pull,
    untilMs: Math.min(pull.untilMs, nowMs + pull.backoffMs),
  }));
  return { ...state, containers, ...(state.pulls === undefined ? {} : { pulls }) };
}

/** After a crash of this actor, facts recorded while the file was read are newer. */
function merged(read: SoftState, noted: SoftState): SoftState {
  const tables = Object.entries(noted).map(([name, table]) => [name, { ...read[name as keyof SoftState], ...table }]);
  return { ...read, ...Object.fromEntries(tables) };
}

/** Whether the files of the kubelet are kept: without cgroups no pod is resized, and no other kubelet can take over. */
const keepsFiles = (input: SoftStateInput): boolean =>
  input.makesPodCgroups === true && hasBehavior(input, 'allocationsHandedOver');

const placeOf = ({ path, rootDir }: Context) => ({ path, ...(rootDir === undefined ? {} : { rootDir }) });

/** `pods` receives the state last: it answers with the existing pods. */
const loaded = ({ context }: { context: Context }) => ({ type: 'softState.loaded', state: context.state });

const noteLoaded = s.assign((args) => {
  const { unread: _told, ...output } = outputOf<SoftState & { unread?: string }>(args.event);
  return { state: merged(withShortenedBackOffs(output, now(args)), args.context.state) };
});

/** Logs state files that cannot be used. Upstream does not start with such files. */
const logUnusableFiles = s.enqueueActions(({ context, event, enqueue }) => {
  const { unread: error = '' } = outputOf<SoftState & { unread?: string }>(event);
  if (error === '') return;
  const text = 'Cannot read what another kubelet allocated; its pods are admitted with what they request';
  enqueue(line('warn', [text, { folder: context.rootDir, error }]));
});

export const softStateMachine = s.createMachine({
  id: 'softState',
  context: ({ input }) => ({
    path: input.softStateFile,
    ...(keepsFiles(input) ? { rootDir: input.rootDir } : {}),
    state: { containers: {}, probes: {} },
    isDirty: false,
    isUrgent: false,
  }),
  initial: 'loading',
  on: {
    'softState.noted': { actions: noteContainer },
    'softState.begun': { actions: noteContainer },
    'softState.probed': { actions: noteContainer },
    'softState.pulled': { actions: notePull },
    'softState.allocated': { actions: noteGrant },
    'softState.resized': { actions: noteResize },
    'softState.rejected': { actions: noteContainer },
    'softState.forgotten': { actions: forgetPod },
    'pods.known': { actions: forgetGonePods },
  },
  states: {
    loading: {
      invoke: {
        id: 'load',
        src: 'host.loadSoftState',
        input: ({ context }) => placeOf(context),
        onDone: { target: 'ready', actions: [logUnusableFiles, noteLoaded] },
        onError: {
          target: 'ready',
          actions: line('warn', ({ context, event }) => [
            'Cannot read what was remembered; starting without it',
            { path: context.path, error: errorOf(event).message },
          ]),
        },
      },
    },
    ready: {
      entry: [sendParent(loaded), sendTo(to('allocation'), loaded), sendTo(to('pods'), loaded)],
      initial: 'saved',
      on: { 'softState.wanted': { actions: [sendTo(to('allocation'), loaded), sendTo(to('pods'), loaded)] } },
      states: {
        saved: { always: { guard: 'isDirty', target: 'gathering' } },
        gathering: { always: { guard: 'isUrgent', target: 'saving' }, after: { [GATHER_MS]: 'saving' } },
        saving: {
          entry: s.assign({ isDirty: false, isUrgent: false }),
          invoke: {
            id: 'save',
            src: 'host.saveSoftState',
            input: ({ context }) => ({ ...placeOf(context), state: context.state }),
            onDone: 'saved',
            onError: {
              target: 'retrying',
              actions: line('error', ({ context, event }) => [
                'Cannot write what is remembered',
                { path: context.path, error: errorOf(event).message },
              ]),
            },
          },
        },
        retrying: { after: { [RETRY_MS]: 'saving' } },
      },
    },
  },
});
