/**
 * The calls to the plugins of a pod's devices before its containers begin. Part of the chart of `pod.ts`.
 *
 * Invariant: V1 a container whose plugin could not prepare its devices is not made with them, and says why. Upstream:
 * devicemanager (callPreStartContainerIfNeeded).
 */
import { outputOf } from '../../../../kernel/xstate.ts';
import { complain, failed, permit } from './pod-actions.ts';
import { rememberPod } from './pod-remembering.ts';
import { podSetup as s } from './pod-setup.ts';

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
      { target: 'active', actions: [noteUnprepared, permit, rememberPod] },
    ],
    onError: { target: 'backingOff', actions: [failed, complain('Cannot prepare devices')] },
  },
});
