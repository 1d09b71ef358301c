import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { describe, expect, test } from 'vitest';
import { hintOfContainerEvent, hintOfEnvelope } from '../../../src/actors/cri/hints.ts';
import type { ContainerEventResponse } from '../../../src/machines/model/api/cri.ts';
import { labelsOf } from './fake-runtime.ts';

const events = protobuf.loadSync(
  fileURLToPath(new URL('../../../proto/containerd/events/events.proto', import.meta.url)),
);

/** An envelope as containerd writes it, with the payload in protobuf. */
function envelope(topic: string, type: string, payload: object, namespace = 'k8s.io') {
  const value = events.lookupType(`containerd.events.${type}`).encode(payload).finish();
  return {
    topic,
    namespace,
    event: { type_url: `containerd.events.${type}`, value: Buffer.from(value).toString('base64') },
  };
}

describe('events of containerd', () => {
  test.each([
    ['/tasks/start', 'TaskStart', { containerId: 'c', pid: 7 }, { id: 'c', outcome: 'running' }],
    ['/tasks/exit', 'TaskExit', { containerId: 'c', id: 'c', exitStatus: 137 }, { id: 'c', outcome: 'exited' }],
    ['/tasks/exit', 'TaskExit', { containerId: 'c', id: 'exec-1' }, null],
    ['/tasks/delete', 'TaskDelete', { containerId: 'c' }, { id: 'c', outcome: 'exited' }],
    ['/tasks/delete', 'TaskDelete', { containerId: 'c', id: 'exec-1' }, null],
    ['/tasks/oom', 'TaskOOM', { containerId: 'c' }, { id: 'c', outcome: 'changed' }],
    ['/containers/delete', 'ContainerDelete', { id: 'c' }, { id: 'c', outcome: 'gone' }],
    ['/containers/create', 'ContainerCreate', { id: 'c' }, null],
    ['/tasks/exit', 'TaskExit', {}, null],
  ])('%s %s %o', (topic, type, payload, hint) => {
    expect(hintOfEnvelope(envelope(topic, type, payload))).toEqual(hint);
  });

  test('another namespace is not ours', () => {
    expect(hintOfEnvelope(envelope('/tasks/start', 'TaskStart', { containerId: 'c' }, 'moby'))).toBeNull();
  });

  test('an event without payload, or with one of a later release, is none', () => {
    expect(hintOfEnvelope({ topic: '/tasks/exit', namespace: 'k8s.io', event: null })).toBeNull();
    const event = { type_url: 'containerd.events.FromTheFuture', value: 'CgFj' };
    expect(hintOfEnvelope({ topic: '/tasks/exit', namespace: 'k8s.io', event })).toBeNull();
  });
});

describe('container events of CRI', () => {
  const event = (over: object): ContainerEventResponse => ({
    container_id: 'c',
    container_event_type: 'CONTAINER_STOPPED_EVENT',
    created_at: '0',
    containers_statuses: [],
    ...over,
  });

  test.each([
    ['CONTAINER_STARTED_EVENT', 'running'],
    ['CONTAINER_STOPPED_EVENT', 'exited'],
    ['CONTAINER_DELETED_EVENT', 'gone'],
    [99, 'changed'],
  ])('%s', (container_event_type, outcome) => {
    expect(hintOfContainerEvent(event({ container_event_type }))).toEqual({ id: 'c', outcome });
  });

  test('what was only made is no hint', () => {
    expect(hintOfContainerEvent(event({ container_event_type: 'CONTAINER_CREATED_EVENT' }))).toBeNull();
  });

  test('the pod is taken from the labels of its sandbox', () => {
    const pod_sandbox_status = { labels: labelsOf('a') };
    expect(hintOfContainerEvent(event({ pod_sandbox_status }))).toMatchObject({ uid: 'a' });
    expect(hintOfContainerEvent(event({ pod_sandbox_status: null }))).not.toHaveProperty('uid');
  });
});
