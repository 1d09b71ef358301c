import { describe, expect, it } from 'vitest';
import { Contract } from '../../../src/actors/contract.ts';
import { execOutput, withoutOthers } from '../../../src/actors/cri/message-fields.ts';

const contract = new Contract(['cri/v1/api.proto'], { bytes: String });
const events = contract.method<object, { containers_statuses: { id: string }[] }>(
  'runtime.v1.RuntimeService',
  'GetContainerEvents',
)!;
const bytesOf = (event: object) =>
  events.responseSerialize({
    container_event_type: 'CONTAINER_STARTED_EVENT',
    created_at: '1700000000000000000',
    pod_sandbox_status: { id: 'sandbox', labels: { 'io.kubernetes.pod.uid': 'u' } },
    ...event,
  } as never);
const statuses = (...ids: string[]) =>
  ids.map((id) => ({ id, state: 'CONTAINER_RUNNING', message: `of ${id}`, labels: { name: id } }));

describe('an event without the statuses of other containers', () => {
  it.each([
    ['of a container among others', 'b', ['a', 'b', 'c'], ['b']],
    ['of the only container', 'a', ['a'], ['a']],
    ['of a sandbox', 'sandbox', ['a', 'b'], []],
    ['of a container that is not in it', 'gone', ['a', 'b'], []],
    ['that names nothing', '', ['a', 'b'], []],
  ])('%s', (_, container_id, ids, left) => {
    const whole = bytesOf({ container_id, containers_statuses: statuses(...ids) });
    const wanted = bytesOf({ container_id, containers_statuses: statuses(...left) });
    expect(events.responseDeserialize(withoutOthers(whole))).toEqual(events.responseDeserialize(wanted));
  });

  it('keeps fields of a later contract', () => {
    const later = Buffer.from([0xa2, 0x06, 0x02, 0x68, 0x69]);
    const whole = Buffer.concat([bytesOf({ container_id: 'a', containers_statuses: statuses('a', 'b') }), later]);
    expect(withoutOthers(whole).subarray(-later.length)).toEqual(later);
  });

  it('refuses millions of empty fields before it keeps them', () => {
    const many = Buffer.from('2a00'.repeat(1_000_000), 'hex');
    for (const read of [withoutOthers, execOutput]) expect(() => read(many)).toThrow('more than 100000 fields');
  });

  it('refuses bytes that are no message, at every length', () => {
    const whole = bytesOf({ container_id: 'a', containers_statuses: statuses('a', 'b') });
    const isRead = (bytes: Buffer) => {
      try {
        events.responseDeserialize(withoutOthers(bytes));
        return true;
      } catch (error) {
        return error instanceof Error ? 'refused' : error;
      }
    };
    const outcomes = Array.from({ length: whole.length }, (_unused, length) => isRead(whole.subarray(0, length)));
    expect(new Set(outcomes)).toEqual(new Set([true, 'refused']));
  });
});
