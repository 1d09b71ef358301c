import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { describe, expect, it } from 'vitest';
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
  it.each([
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

  it('another namespace is not ours', () => {
    expect(hintOfEnvelope(envelope('/tasks/start', 'TaskStart', { containerId: 'c' }, 'moby'))).toBeNull();
  });

  it('an event without payload, or with one of a later release, is none', () => {
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

  it.each([
    ['CONTAINER_CREATED_EVENT', 'changed'],
    ['CONTAINER_STARTED_EVENT', 'running'],
    ['CONTAINER_STOPPED_EVENT', 'exited'],
    ['CONTAINER_DELETED_EVENT', 'gone'],
    [99, 'changed'],
  ])('%s', (container_event_type, outcome) => {
    const isNew = container_event_type === 'CONTAINER_CREATED_EVENT' ? { isNew: true } : {};
    expect(hintOfContainerEvent(event({ container_event_type }))).toEqual({ id: 'c', outcome, ...isNew });
  });

  const texts = { reason: '', message: '', annotations: {}, mounts: [] };
  const status = (id: string, state: string) => ({ id, state, labels: labelsOf('a'), ...texts });

  it.each([
    ['CONTAINER_STARTED_EVENT', 'CONTAINER_RUNNING', true],
    ['CONTAINER_STARTED_EVENT', 'CONTAINER_EXITED', true],
    ['CONTAINER_STARTED_EVENT', 'CONTAINER_CREATED', false],
    ['CONTAINER_STOPPED_EVENT', 'CONTAINER_EXITED', true],
    ['CONTAINER_STOPPED_EVENT', 'CONTAINER_RUNNING', false],
    ['CONTAINER_CREATED_EVENT', 'CONTAINER_CREATED', false],
    ['CONTAINER_DELETED_EVENT', 'CONTAINER_EXITED', false],
  ])('%s with its container %s: its status counts: %s', (container_event_type, state, counts) => {
    const containers_statuses = [status('other', 'CONTAINER_EXITED'), status('c', state)];
    const hint = hintOfContainerEvent(event({ container_event_type, containers_statuses }));
    expect(hint.instance?.status.id).toBe(counts ? 'c' : undefined);
    expect(hint.instance?.status.state).toBe(counts ? state : undefined);
  });

  it.each([
    ['CONTAINER_STARTED_EVENT', 'SANDBOX_READY', true],
    ['CONTAINER_STARTED_EVENT', 'SANDBOX_NOTREADY', false],
    ['CONTAINER_STOPPED_EVENT', 'SANDBOX_NOTREADY', true],
    ['CONTAINER_STOPPED_EVENT', 'SANDBOX_READY', false],
  ])('%s with its sandbox %s: its status counts: %s', (container_event_type, state, counts) => {
    const pod_sandbox_status = status('s', state);
    const hint = hintOfContainerEvent(event({ container_id: 's', container_event_type, pod_sandbox_status }));
    expect(hint.instance?.kind).toBe(counts ? 'sandbox' : undefined);
  });

  it('a status without the label of a pod is foreign', () => {
    const containers_statuses = [{ ...status('c', 'CONTAINER_EXITED'), labels: {} }];
    expect(hintOfContainerEvent(event({ containers_statuses }))).not.toHaveProperty('instance');
  });

  it('the pod is taken from the labels of its sandbox', () => {
    const pod_sandbox_status = { labels: labelsOf('a') };
    expect(hintOfContainerEvent(event({ pod_sandbox_status }))).toMatchObject({ uid: 'a' });
    expect(hintOfContainerEvent(event({ pod_sandbox_status: null }))).not.toHaveProperty('uid');
  });
});
