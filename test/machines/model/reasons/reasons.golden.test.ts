/**
 * Every pod event and waiting reason of the recordings, compared with the texts of `reasons.ts`: a builder must produce
 * each of them with some arguments.
 */
import { describe, expect, it } from 'vitest';
import {
  containerEvents,
  containerFieldPath,
  type EventText,
  killMessages,
  podEvents,
  runtimeErrorText,
  waitingMessages,
  waitingReasons,
} from '../../../../src/machines/model/reasons/reasons.ts';
import { type Recorded, recordings } from '../spec/recordings.ts';

/** Events about things that this agent does not do: no builder may produce them. */
const OTHERS: ReadonlySet<string> = new Set([
  'ResizeStarted',
  'ResizeCompleted',
  'ResizeDeferred',
  'FailedToRetrieveImagePullSecret',
  'Evicted',
]);
/** Reasons of admission; the event has the message of the status. */
const REJECTIONS: ReadonlySet<string> = new Set([
  'NodeAffinity',
  'NodePorts',
  'OutOfcpu',
  'OutOfmemory',
  'SysctlForbidden',
]);

const ARGUMENT = '\u0001';

/** A text with any arguments, as a pattern. `free`: the arguments may be the whole text. */
function pattern(text: string): RegExp {
  const parts = text.split(ARGUMENT).map((part) => part.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&'));
  return new RegExp(`^${parts.join('(.*)')}$`, 's');
}

type Builder = (...args: never[]) => unknown;

const argumentsOf = (builder: Builder): string[] => Array.from({ length: builder.length }, () => ARGUMENT);

const call = (builder: Builder): Recorded => Reflect.apply(builder, undefined, argumentsOf(builder));

const { definitionChanged, probeFailed, ...otherKills } = killMessages;
const kills = [
  ...Object.values(otherKills).map((text) => (typeof text === 'string' ? text : String(call(text)))),
  ...[false, true].map((isSidecar) => definitionChanged(ARGUMENT, isSidecar)),
  ...(['liveness', 'startup'] as const).flatMap((probe) =>
    (['again', 'never', 'asSidecar'] as const).map((comes) => probeFailed(ARGUMENT, probe, comes)),
  ),
];
/** Builders with arguments that are not texts. */
const OF_OTHER_ARGUMENTS = new Set([
  'rejected',
  'killing',
  'inspectFailed',
  'failedNodeDeclaredFeaturesCheck',
  'unmountedVolumes',
  'unprocessedVolumes',
]);
const builders: readonly EventText[] = [
  ...Object.entries({ ...podEvents, ...containerEvents })
    .filter(([name]) => !OF_OTHER_ARGUMENTS.has(name))
    .flatMap(([name, builder]) =>
      name === 'unhealthy' || name === 'probeErrored'
        ? (['Liveness', 'Readiness', 'Startup'] as const).map((probe) =>
            name === 'unhealthy'
              ? containerEvents.unhealthy(probe, ARGUMENT)
              : containerEvents.probeErrored(probe, ARGUMENT),
          )
        : [call(builder)],
    ),
  ...kills.map(containerEvents.killing),
  podEvents.failedNodeDeclaredFeaturesCheck([ARGUMENT]),
  podEvents.unmountedVolumes([ARGUMENT], [ARGUMENT]),
  podEvents.unprocessedVolumes([ARGUMENT], [ARGUMENT]),
  containerEvents.inspectFailed(waitingMessages.invalidImageName(ARGUMENT, ARGUMENT)),
];

const events: readonly Recorded[] = recordings.flatMap(({ writes }) =>
  writes.map(({ body }) => body).filter((body) => body?.kind === 'Event' && body.involvedObject.kind === 'Pod'),
);

describe('events', () => {
  const mine = events.filter(({ reason }) => !OTHERS.has(reason) && !REJECTIONS.has(reason));

  it('are many', () => {
    expect(mine.length).toBeGreaterThan(450);
  });

  it('have the texts of the recordings', () => {
    const strangers = mine.filter(
      ({ type, reason, message }) =>
        !builders.some((each) => each.type === type && each.reason === reason && pattern(each.message).test(message)),
    );
    expect(strangers.map(({ type, reason, message }) => ({ type, reason, message }))).toEqual([]);
  });

  it('name the field of their container', () => {
    const paths = new Set(
      events.map(({ involvedObject }) => involvedObject.fieldPath).filter((path) => path !== undefined),
    );
    for (const path of paths) {
      const [, list, name = ''] = /^spec\.(initContainers|containers)\{(.*)\}$/.exec(path) ?? [];
      expect(containerFieldPath(list === 'containers' ? 'regular' : 'sidecar', name)).toBe(path);
    }
    expect(paths.size).toBeGreaterThan(10);
  });
});

describe('waiting', () => {
  const states: readonly Recorded[] = recordings.flatMap(({ statuses }) =>
    statuses.flatMap(({ status }) =>
      [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])].map(({ state }) => state.waiting),
    ),
  );

  it('has only reasons that are listed', () => {
    const reasons = new Set(states.filter((state) => state !== undefined).map(({ reason }) => reason));
    expect([...reasons].filter((reason) => !Object.values<string>(waitingReasons).includes(reason))).toEqual([]);
    expect(reasons.size).toBeGreaterThan(8);
  });

  it.each([
    [waitingReasons.crashLoopBackOff, waitingMessages.crashLoopBackOff(ARGUMENT, ARGUMENT, ARGUMENT)],
    [waitingReasons.imagePullBackOff, waitingMessages.imagePullBackOff(ARGUMENT, ARGUMENT)],
    [waitingReasons.errImageNeverPull, waitingMessages.neverPull(ARGUMENT)],
    [waitingReasons.invalidImageName, waitingMessages.invalidImageName(ARGUMENT, ARGUMENT)],
  ])('%s has the text of the recordings', (reason, text) => {
    const recorded = states.filter((state) => state?.reason === reason);
    expect(recorded.length).toBeGreaterThan(0);
    for (const { message } of recorded) expect(message).toMatch(pattern(text));
  });
});

describe('runtimeErrorText', () => {
  it('leaves out a code that says nothing', () => {
    expect(runtimeErrorText('rpc error: code = Unknown desc = no such file')).toBe('no such file');
    expect(runtimeErrorText('rpc error: code = NotFound desc = not found')).toBe(
      'rpc error: code = NotFound desc = not found',
    );
  });
});
