/** Messages as callers have them, and what of a contract is made. */
import { expect, test } from 'vitest';
import { Contract } from '../../src/actors/contract.ts';

const RUNTIME = 'runtime.v1.RuntimeService';
const contract = new Contract(['cri/v1/api.proto', 'containerd/events/events.proto'], { bytes: String });
const method = (name: string) => contract.method<object, object>(RUNTIME, name)!;

test('a message comes back as it was sent, with every field that it has', () => {
  const { path, requestStream, responseStream, responseSerialize, responseDeserialize } = method('ListPodSandbox');
  expect({ path, requestStream, responseStream }).toEqual({
    path: '/runtime.v1.RuntimeService/ListPodSandbox',
    requestStream: false,
    responseStream: false,
  });
  const item = {
    id: 'a',
    metadata: { name: 'p', uid: 'u', namespace: 'n', attempt: 7 },
    state: 'SANDBOX_NOTREADY',
    created_at: '9223372036854775807',
    labels: { x: 'ä' },
  };
  expect(responseDeserialize(responseSerialize({ items: [item] }))).toEqual({
    items: [{ ...item, annotations: {}, runtime_handler: '' }],
  });
});

test('a stream is one', () => {
  expect(method('GetContainerEvents')).toMatchObject({ requestStream: false, responseStream: true });
});

test('what the contract does not have is not there', () => {
  expect(contract.method(RUNTIME, 'RemoveEverything')).toBeUndefined();
  expect(contract.decode('containerd.events.Nothing', new Uint8Array())).toBeUndefined();
  expect(() => contract.service('runtime.v2.RuntimeService')).toThrow('no such');
});

test('bytes that are no message are an error, not a message', () => {
  expect(() => method('Version').responseDeserialize(Buffer.from([0xff, 0xff, 0xff]))).toThrow('index out of range');
});

test('64-bit integers and bytes are text where a caller wants them as text', () => {
  const bytes = Buffer.from([0x0a, 0x01, 0x63, 0x18, 0xff, 0xff, 0xff, 0xff, 0x0f]);
  expect(contract.decode('containerd.events.TaskExit', bytes)).toMatchObject({
    container_id: 'c',
    pid: 4294967295,
    exited_at: null,
  });
});

test('a field that nothing reads is skipped, and what follows it is read', () => {
  const event = {
    container_id: 'c',
    container_event_type: 'CONTAINER_STARTED_EVENT',
    created_at: '5',
    pod_sandbox_status: null,
    containers_statuses: [{ id: 'c', log_path: 'x'.repeat(100) }],
  };
  const bytes = method('GetContainerEvents').responseSerialize(event);
  const lean = new Contract(['cri/v1/api.proto'], {
    without: ['runtime.v1.ContainerEventResponse.containers_statuses'],
  });
  const { containers_statuses: _skipped, ...rest } = event;
  expect(lean.method<object, object>(RUNTIME, 'GetContainerEvents')!.responseDeserialize(bytes)).toEqual(rest);
});
