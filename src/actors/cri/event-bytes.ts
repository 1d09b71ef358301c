/**
 * A CRI event is about one container but carries the statuses of all containers of the pod. Decoding hundreds of them
 * for each event would block the main thread, so the others are cut out before decoding.
 *
 * Invariant: linear in the bytes; the result is the same message with only the status of the event's own container.
 * Source: `ContainerEventResponse` in `proto/cri/v1/api.proto`.
 */
import protobuf from 'protobufjs';

const { Reader } = protobuf;

/** Fields of `ContainerEventResponse`, and the first of `ContainerStatus`. */
const CONTAINER_ID = 1;
const CONTAINERS_STATUSES = 5;
const STATUS_ID = 1;

interface Field {
  readonly number: number;
  /** Offset of the field's content, behind its tag. */
  readonly start: number;
  readonly end: number;
}

/** @throws RangeError or Error if the bytes are no message */
function* fieldsOf(bytes: Uint8Array): Generator<Field> {
  const reader = Reader.create(bytes);
  while (reader.pos < reader.len) {
    const start = reader.pos;
    const tag = reader.uint32();
    reader.skipType(tag & 7);
    yield { number: tag >>> 3, start, end: reader.pos };
  }
}

/** The content of a field of bytes or text. */
function contentOf(bytes: Uint8Array, { start }: Field): Uint8Array {
  const reader = Reader.create(bytes);
  reader.pos = start;
  reader.uint32();
  return reader.bytes();
}

const first = (bytes: Uint8Array, number: number): Uint8Array | undefined => {
  for (const field of fieldsOf(bytes)) if (field.number === number) return contentOf(bytes, field);
  return undefined;
};

/**
 * An event without the statuses of other containers.
 *
 * @throws RangeError or Error if the bytes are no message
 */
export function withoutOthers(bytes: Buffer): Buffer {
  const fields = [...fieldsOf(bytes)];
  const own = fields.find(({ number }) => number === CONTAINER_ID);
  const id = own === undefined ? undefined : contentOf(bytes, own);
  const kept = fields.filter((field) => {
    if (field.number !== CONTAINERS_STATUSES) return true;
    const of = first(contentOf(bytes, field), STATUS_ID);
    return id !== undefined && of !== undefined && Buffer.compare(id, of) === 0;
  });
  if (kept.length === fields.length) return bytes;
  return Buffer.concat(kept.map(({ start, end }) => bytes.subarray(start, end)));
}
