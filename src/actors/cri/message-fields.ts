/**
 * Reads single fields of the runtime's messages from their bytes, where decoding the whole message would block the main
 * thread: events of containers, and the output of a command.
 */
import protobuf from 'protobufjs';
import { OperationError } from '../../kernel/json.ts';

const { Reader } = protobuf;

/** Fields of `ContainerEventResponse` in `proto/cri/v1/api.proto`, and the first of `ContainerStatus`. */
const CONTAINER_ID = 1;
const CONTAINERS_STATUSES = 5;
const STATUS_ID = 1;

interface Field {
  readonly number: number;
  /** Offset of the field's content, after its tag. */
  readonly start: number;
  readonly end: number;
}

/**
 * Fields of one message: an event has one for each container of its pod, with the dead ones. A field may have two
 * bytes, and takes thirty times as much memory.
 */
const FIELDS_MAX = 100_000;

/**
 * @throws RangeError or Error if the bytes are no message
 * @throws OperationError if there are more than {@link FIELDS_MAX}
 */
function* fieldsOf(bytes: Uint8Array): Generator<Field> {
  const reader = Reader.create(bytes);
  for (let count = 0; reader.pos < reader.len; count++) {
    if (count === FIELDS_MAX)
      throw new OperationError(`the message has more than ${FIELDS_MAX} fields`, { code: 'RESOURCE_EXHAUSTED' });
    const start = reader.pos;
    const tag = reader.uint32();
    reader.skipType(tag & 7);
    yield { number: tag >>> 3, start, end: reader.pos };
  }
}

const contentOf = (bytes: Uint8Array, field: Field): Uint8Array => behindTag(bytes, field).bytes();

function behindTag(bytes: Uint8Array, { start }: Field): protobuf.Reader {
  const reader = Reader.create(bytes);
  reader.pos = start;
  reader.uint32();
  return reader;
}

const first = (bytes: Uint8Array, number: number): Uint8Array | undefined => {
  for (const field of fieldsOf(bytes)) if (field.number === number) return contentOf(bytes, field);
  return undefined;
};

/**
 * An event without the statuses of other containers, in time linear in its bytes. An event is about one container but
 * carries the statuses of all containers of its pod; decoding hundreds of them for each event would block the main
 * thread.
 *
 * @throws RangeError or Error if the bytes are no message
 */
export function withoutOthers(bytes: Buffer): Buffer {
  const fields = [...fieldsOf(bytes)];
  const idField = fields.find(({ number }) => number === CONTAINER_ID);
  const id = idField === undefined ? undefined : contentOf(bytes, idField);
  const kept = fields.filter((field) => {
    if (field.number !== CONTAINERS_STATUSES) return true;
    const of = first(contentOf(bytes, field), STATUS_ID);
    return id !== undefined && of !== undefined && Buffer.compare(id, of) === 0;
  });
  if (kept.length === fields.length) return bytes;
  return Buffer.concat(kept.map(({ start, end }) => bytes.subarray(start, end)));
}

/**
 * The reply to `ExecSync`, with the output as the bytes of the message. As base64, like other bytes, 16 MiB of output
 * would block the main thread for seconds. Source: `ExecSyncResponse` in `proto/cri/v1/api.proto`.
 */
export interface ExecOutput {
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly exit_code: number;
}

const [STDOUT, STDERR, EXIT_CODE] = [1, 2, 3];
const NOTHING: Uint8Array = new Uint8Array();

/** @throws RangeError or Error if the bytes are no message */
export function execOutput(bytes: Uint8Array): ExecOutput {
  let output: ExecOutput = { stdout: NOTHING, stderr: NOTHING, exit_code: 0 };
  for (const field of fieldsOf(bytes)) {
    if (field.number === STDOUT) output = { ...output, stdout: contentOf(bytes, field) };
    else if (field.number === STDERR) output = { ...output, stderr: contentOf(bytes, field) };
    else if (field.number === EXIT_CODE) output = { ...output, exit_code: behindTag(bytes, field).int32() };
  }
  return output;
}
