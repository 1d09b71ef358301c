/**
 * One object that pods use (`object-<key>` below `objects`): a ConfigMap, a Secret or a RuntimeClass.
 *
 * Decides: whether it is watched or read periodically, by the configured strategy; which changes are published.
 * Owns: the version that was last published.
 * Hears: its reflector; `object.refresh`, `object.period` of `objects`.
 * Asks: `kube.get`, or its reflector's list and watch.
 * Sends: `objects` `object.observed`.
 * Invariants:
 *   O1 an unchanged object is not published.
 *   O2 an immutable object is not read again, except for a refresh.
 *   O3 an unreadable object is published as unknown, never as missing; the published content stays.
 *   O4 a refresh is answered by the first read that began after it, even with an unchanged object.
 */

import type { ActionArgsOf, Ended, EnqueueOf } from '../../../kernel/xstate.ts';
import { errorOf, line, now, outputOf, pick, random, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { configObjectFrom } from '../../model/objects/config-objects.ts';
import type { ObjectObserved, ObjectPeriod, ObjectRefresh, ObjectState } from '../../model/objects/keys.ts';
import { idOf } from '../../model/objects/keys.ts';
import { type KubeObject, kubeOperations } from '../../model/operations/kube.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';
import { pauseMs, READ_BACK_OFF } from '../../model/values/time.ts';
import { REOPEN_MS, type ReflectorReport, reflectorMachine } from '../kube/reflector.ts';

type Strategy = NonNullable<NodeSettings['apiServer']>['changeDetection'];

/** A list that takes longer is reported to the pods that wait for it. */
const SYNC_MS = 10_000;

export interface ObjectInput {
  readonly key: string;
  readonly strategy: Strategy;
  /** The newest refresh that was requested. */
  readonly refresh: number;
  /** The maximum age of a value, in milliseconds. */
  readonly periodMs: number;
}

interface Context extends ObjectInput {
  /** The version that was last published; `null` for none. Empty: the object is missing. */
  readonly version: string | null;
  readonly isImmutable: boolean;
  /** The newest refresh requested when the current call began, and the newest one answered. */
  readonly asked: number;
  readonly answered: number;
  readonly failures: number;
  readonly untilMs: number;
}

const s = setup({
  types: typed<{
    input: ObjectInput;
    context: Context;
    events: ReflectorReport | ObjectRefresh | ObjectPeriod | Ended;
  }>(),
  actors: { reflector: reflectorMachine, ...pick(kubeOperations, 'kube.get') },
  guards: {
    watches: ({ context }) => context.strategy === 'Watch',
    isImmutable: ({ context }) => context.isImmutable,
    isOverdue: ({ context }) => context.refresh > context.asked,
    isUnreported: ({ context }) => context.version === null,
  },
  delays: {
    period: ({ context }) => context.periodMs,
    retry: (args) => Math.max(0, args.context.untilMs - now(args)),
  },
});

type Enqueue = EnqueueOf<typeof s>;

const sendState = (enqueue: Enqueue, { key, asked }: Context, state: ObjectState): void =>
  enqueue(sendParent({ type: 'object.observed', key, refresh: asked, ...state } satisfies ObjectObserved));

function report(enqueue: Enqueue, context: Context, object: KubeObject | null): void {
  const { key, version, asked, answered } = context;
  const found = object && configObjectFrom(idOf(key), object);
  const next = found?.version ?? '';
  enqueue.assign({ version: next, answered: asked, isImmutable: object?.['immutable'] === true, failures: 0 });
  if (next === version && asked === answered) return;
  sendState(enqueue, context, found === null ? { state: 'missing' } : { state: 'found', object: found });
}

const handleList = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type === 'reflector.listed') report(enqueue, context, event.items[0] ?? null);
});

const handleChange = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'reflector.changed') return;
  report(enqueue, context, event.change === 'DELETED' ? null : event.object);
});

const handleAnswer = s.enqueueActions(({ context, event, enqueue }) => {
  report(enqueue, context, outputOf<KubeObject>(event));
});

const pauseOf = (args: ActionArgsOf<typeof s>) => {
  const { failures } = args.context;
  return { failures: failures + 1, untilMs: now(args) + pauseMs(READ_BACK_OFF, failures, random(args)) };
};

const logUnsynced = s.enqueueActions(({ context, enqueue }) => {
  const { kind } = idOf(context.key);
  const message = `failed to sync ${kind.toLowerCase()} cache: timed out waiting for the condition`;
  sendState(enqueue, context, { state: 'unknown', message });
});

/** The object does not exist, or could not be read. */
const noteFailure = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { code, message } = errorOf(event);
  const { version, asked, answered } = context;
  if (code === 'NotFound') report(enqueue, context, null);
  else if (version === null || asked > answered) sendState(enqueue, context, { state: 'unknown', message });
  enqueue.assign(pauseOf(args));
});

const noteRefresh = s.assign(({ event }) => (event.type === 'object.refresh' ? { refresh: event.refresh } : {}));

const notePeriod = s.assign(({ event }) => (event.type === 'object.period' ? { periodMs: event.periodMs } : {}));

const RESOURCES: Readonly<Record<string, { readonly apiVersion: string; readonly resource: string }>> = {
  ConfigMap: { apiVersion: 'v1', resource: 'configmaps' },
  Secret: { apiVersion: 'v1', resource: 'secrets' },
  RuntimeClass: { apiVersion: 'node.k8s.io/v1', resource: 'runtimeclasses' },
};

function collectionOf(key: string) {
  const { kind, namespace } = idOf(key);
  const place = RESOURCES[kind] ?? { apiVersion: 'v1', resource: kind.toLowerCase() };
  return { client: 'kube' as const, ...place, ...(namespace === '' ? {} : { namespace }) };
}

export const objectMachine = s.createMachine({
  id: 'object',
  context: ({ input }) => ({
    ...input,
    version: null,
    isImmutable: false,
    asked: input.refresh,
    answered: 0,
    failures: 0,
    untilMs: 0,
  }),
  initial: 'choosing',
  on: {
    'object.refresh': { target: '.getting', actions: noteRefresh },
    'object.period': { actions: notePeriod },
  },
  states: {
    choosing: { always: [{ guard: 'watches', target: 'watching' }, { target: 'getting' }] },
    watching: {
      invoke: {
        id: 'reflector',
        src: 'reflector',
        input: ({ context: { key } }) => ({
          target: collectionOf(key),
          fieldSelector: `metadata.name=${idOf(key).name}`,
        }),
        onDone: 'reopening',
        onError: {
          target: 'reopening',
          actions: line('error', ({ context, event }) => [
            'Following an object of the API server crashed and starts again',
            { object: context.key, error: errorOf(event).message },
          ]),
        },
      },
      always: { guard: 'isImmutable', target: 'settled' },
      on: { 'reflector.listed': { actions: handleList }, 'reflector.changed': { actions: handleChange } },
      after: { [SYNC_MS]: { guard: 'isUnreported', actions: logUnsynced } },
    },
    reopening: { after: { [REOPEN_MS]: 'watching' } },
    getting: {
      entry: s.assign({ asked: ({ context }) => context.refresh }),
      on: { 'object.refresh': { actions: noteRefresh } },
      invoke: {
        id: 'get',
        src: 'kube.get',
        input: ({ context: { key } }) => ({ ...collectionOf(key), name: idOf(key).name }),
        onDone: [
          { guard: 'isOverdue', target: 'getting', reenter: true, actions: handleAnswer },
          { target: 'resting', actions: handleAnswer },
        ],
        onError: [
          { guard: 'isOverdue', target: 'getting', reenter: true, actions: noteFailure },
          { target: 'backingOff', actions: noteFailure },
        ],
      },
    },
    /** Waits until the object has to be read again. */
    resting: {
      always: { guard: 'isImmutable', target: 'settled' },
      after: { period: 'getting' },
      on: { 'object.period': { target: 'resting', reenter: true, actions: notePeriod } },
    },
    /** The object did not exist, or could not be read. */
    backingOff: { after: { retry: 'getting' } },
    /** The object is immutable; another one of the same name may replace it. */
    settled: {},
  },
});
