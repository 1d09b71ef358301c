/** The responses of plugins, decoded from the bytes that are stored for them. */
import { expect, it } from 'vitest';
import { methodOf } from '../../../../src/actors/plugins/connection.ts';
import { decodedResponse } from '../../../../src/machines/model/allocation/device-state.ts';

const { responseSerialize } = methodOf<object, object>('v1beta1.DevicePlugin', 'Allocate');

/** The only response in the list is preceded by its field number and by one or two bytes with its length. */
function bytesOf(response: object): Buffer {
  const all = responseSerialize({ container_responses: [response] });
  return all.subarray(all[1]! < 0x80 ? 2 : 3);
}

it('is what the plugin said', () => {
  const long = 'ü'.repeat(100);
  const bytes = bytesOf({
    envs: { A: long, B: '' },
    mounts: [{ container_path: '/c', host_path: '/h', read_only: true }, { container_path: '/d' }],
    devices: [{ container_path: '/dev/x', host_path: '/dev/y', permissions: 'rw' }],
    annotations: { 'x.y/z': 'w' },
    cdi_devices: [{ name: 'v.com/x=1' }],
  });
  expect(decodedResponse(bytes.toString('base64'))).toEqual({
    envs: { A: long, B: '' },
    mounts: [
      { containerPath: '/c', hostPath: '/h', readOnly: true },
      { containerPath: '/d', hostPath: '', readOnly: false },
    ],
    devices: [{ containerPath: '/dev/x', hostPath: '/dev/y', permissions: 'rw' }],
    annotations: { 'x.y/z': 'w' },
    cdiDevices: ['v.com/x=1'],
  });
});

const EMPTY = { envs: {}, mounts: [], devices: [], annotations: {}, cdiDevices: [] };
it.each([
  ['nothing', [], EMPTY],
  ['fields that are not known', [0x50, 0x81, 0x01, 0x59, 1, 2, 3, 4, 5, 6, 7, 8, 0x65, 1, 2, 3, 4, 0x6a, 1, 9], EMPTY],
  ['a length beyond the end', [0x0a, 9, 1], null],
  ['a number without an end', [0x50, 0xff], null],
  ['a number that is too long', [0x50, ...Array.from({ length: 11 }, () => 0xff)], null],
  ['a number where a message has to be', [0x10, 1], null],
  ['a kind that there is not', [0x0b], null],
] as const)('of %s', (_, bytes, expected) => {
  expect(decodedResponse(Buffer.from(bytes).toString('base64'))).toEqual(expected);
});

it('of what is no base64 is none', () => expect(decodedResponse('*')).toBeNull());
