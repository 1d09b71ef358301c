/**
 * Preparations for containers before they are created: variables from files in volumes, devices, sub-paths of volumes.
 * Part of the chart of `pod.ts`.
 *
 * Invariants: W1 variables come first, as they may name sub-paths. W2 a container is not created while it lacks a
 * variable, a sub-path or a prepared device; events have upstream's text, the log has the cause.
 * Upstream: devicemanager (callPreStartContainerIfNeeded).
 */
import { line, outputOf } from '../../../../kernel/xstate.ts';
import type { FileValues, Unprepared } from '../../../model/operations/volume.ts';
import { logFailure, noteFailure } from './pod-actions.ts';
import { permitContainers } from './pod-containers.ts';
import type { PodContext } from './pod-context.ts';
import { fileVariablesOf, subPathsOf } from './pod-files.ts';
import { rememberPod } from './pod-node.ts';
import { type Enqueue, podSetup as s } from './pod-setup.ts';
import { volumesPlace } from './pod-volumes.ts';

type Failures = Readonly<Record<string, Unprepared>>;

/** The errors for the statuses, by container; logs their causes. */
function errorsOf(enqueue: Enqueue, { namespace, name }: PodContext, text: string, failures: Failures) {
  const entries = Object.entries(failures);
  const pod = `${namespace}/${name}`;
  for (const [container, { message, why }] of entries)
    enqueue(line('warn', [text, { pod, container, message, err: why }]));
  return Object.fromEntries(entries.map(([container, { message }]) => [container, message]));
}

const noteVariables = s.enqueueActions(({ context, event, enqueue }) => {
  const { values, failed: failures } = outputOf<{ values: Readonly<Record<string, FileValues>>; failed: Failures }>(
    event,
  );
  enqueue.assign({
    fileValues: values,
    unread: errorsOf(enqueue, context, 'Cannot read the variables of a container', failures),
  });
});

const noteSubPaths = s.enqueueActions(({ context, event, enqueue }) => {
  const { failed: failures } = outputOf<{ failed: Failures }>(event);
  enqueue.assign({ unbound: errorsOf(enqueue, context, 'Cannot bind the sub-paths of a container', failures) });
});

/** Waits for these containers' variables from files in volumes. */
export const readingVariables = s.createStateConfig({
  always: { guard: 'lacksSandbox', target: 'deciding' },
  invoke: {
    id: 'variables',
    src: 'volume.readVariables',
    input: ({ context }) => ({ ...volumesPlace(context), variables: fileVariablesOf(context) }),
    onDone: { target: 'withVariables', actions: noteVariables },
    onError: { target: 'backingOff', actions: [noteFailure, logFailure('Cannot read variables from files')] },
  },
});

/** The variables are read: goes on to the other preparations of these containers. */
export const withVariables = s.createStateConfig({
  always: [
    { guard: 'hasDevices', target: 'preparingDevices' },
    { guard: 'hasSubPaths', target: 'bindingSubPaths' },
    { target: 'active', actions: [permitContainers, rememberPod] },
  ],
});

/** Waits for the sub-paths of these containers. */
export const bindingSubPaths = s.createStateConfig({
  always: { guard: 'lacksSandbox', target: 'deciding' },
  invoke: {
    id: 'subPaths',
    src: 'volume.bindSubPaths',
    input: ({ context }) => ({ ...volumesPlace(context), subPaths: subPathsOf(context) }),
    onDone: { target: 'active', actions: [noteSubPaths, permitContainers, rememberPod] },
    onError: { target: 'backingOff', actions: [noteFailure, logFailure('Cannot bind sub-paths')] },
  },
});

const noteUnprepared = s.assign({
  unprepared: ({ event }) => outputOf<{ failed: Record<string, string> }>(event).failed,
});

export const preparingDevices = s.createStateConfig({
  always: { guard: 'lacksSandbox', target: 'deciding' },
  invoke: {
    id: 'preStart',
    src: 'devices.preStartContainers',
    input: ({ context: { writing, devices } }) => ({
      containers: writing.flatMap((name) => (devices[name] ? [{ name, devices: devices[name].ids }] : [])),
    }),
    onDone: [
      { guard: 'hasSubPaths', target: 'bindingSubPaths', actions: noteUnprepared },
      { target: 'active', actions: [noteUnprepared, permitContainers, rememberPod] },
    ],
    onError: { target: 'backingOff', actions: [noteFailure, logFailure('Cannot prepare devices')] },
  },
});
