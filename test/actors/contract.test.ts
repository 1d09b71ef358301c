/** Messages in the form that callers use, and the limits of a contract. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { Contract } from '../../src/actors/contract.ts';

const RUNTIME = 'runtime.v1.RuntimeService';
const contract = new Contract(['cri/v1/api.proto', 'containerd/events/events.proto'], { bytes: String });
const method = (name: string) => contract.method<object, object>(RUNTIME, name)!;

it('a message comes back as it was sent, with every field that it has', () => {
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

it('a stream is one', () => {
  expect(method('GetContainerEvents')).toMatchObject({ requestStream: false, responseStream: true });
});

it('what the contract does not have is not there', () => {
  expect(contract.method(RUNTIME, 'RemoveEverything')).toBeUndefined();
  expect(contract.decode('containerd.events.Nothing', new Uint8Array())).toBeUndefined();
  expect(() => contract.service('runtime.v2.RuntimeService')).toThrow('no such');
});

it('bytes that are no message are an error, not a message', () => {
  expect(() => method('Version').responseDeserialize(Buffer.from([0xff, 0xff, 0xff]))).toThrow('index out of range');
});

it('64-bit integers and bytes are text where a caller wants them as text', () => {
  const bytes = Buffer.from([0x0a, 0x01, 0x63, 0x18, 0xff, 0xff, 0xff, 0xff, 0x0f]);
  expect(contract.decode('containerd.events.TaskExit', bytes)).toMatchObject({
    container_id: 'c',
    pid: 4294967295,
    exited_at: null,
  });
});

describe('a message of more fields than a contract takes', () => {
  const small = new Contract(['cri/v1/api.proto', 'dra/v1/api.proto'], { fieldsMax: 500_000 });
  const read = (service: string, name: string) => small.method<object, object>(service, name)!.responseDeserialize;
  const lists = read(RUNTIME, 'ListContainers');
  const repeated = (count: number, ...element: readonly number[]) =>
    Buffer.alloc(count * element.length, Buffer.from(element));
  const inside = (head: number, content: Buffer) => {
    const length = Buffer.alloc(5, 0x80);
    for (let at = 0, left = content.length; at < 5; at++, left >>>= 7) length[at] = (left & 0x7f) | (at < 4 ? 0x80 : 0);
    return Buffer.concat([Buffer.from([head]), length, content]);
  };
  /** Two bytes each: a field with the length 0. */
  const containers = (count: number) => repeated(count, 0x0a, 0);
  const labels = (count: number) => inside(0x0a, repeated(count, 0x42, 0));
  const devices = (count: number) => inside(0x0a, inside(0x12, repeated(count, 0x0a, 0)));

  it('is an error before it is decoded', () => {
    expect(lists(containers(33_000))).toMatchObject({ containers: { length: 33_000 } });
    expect(() => lists(containers(50_000))).toThrow('ListContainersResponse has more than 500000 fields');
  });

  it.each([
    ['fields of a part', lists, inside(0x0a, repeated(500_001, 0x0a, 0))],
    ['entries of a map', lists, labels(170_000)],
    [
      'parts of a value of a map',
      read('k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin', 'NodePrepareResources'),
      devices(170_000),
    ],
  ])('counts %s', (_, decode, bytes) => {
    expect(() => decode(bytes)).toThrow('has more than 500000 fields');
  });

  it('counts no bytes of a text', () => {
    expect(lists(inside(0x0a, inside(0x0a, Buffer.alloc(200_000, 'x'))))).toMatchObject({ containers: { length: 1 } });
  });

  it('that ends within a field is none', () => {
    expect(() => lists(Buffer.concat([containers(33_000), Buffer.from([0x0a, 9])]))).toThrow('longer than its message');
  });
});

it('names of types that are not there take no memory', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const decode = (at: number) => contract.decode(`Unknown${at}`.padEnd(50_000, 'x'), new Uint8Array());
  expect(decode(0)).toBeUndefined();
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let at = 1; at <= 200; at++) decode(at);
  collect();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(2_000_000);
});
