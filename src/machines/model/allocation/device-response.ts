/**
 * Decodes the response of a plugin from the bytes in the device manager's checkpoint: `ContainerAllocateResponse` of
 * proto/deviceplugin. Pure. Invariants: unknown fields are skipped; invalid bytes give `null`.
 */
import type { DeviceResponse } from '../operations/devices.ts';

/** The bytes of a message, and the read position. */
interface Reader {
  readonly bytes: Uint8Array;
  at: number;
}

/** Fields by number, in the order of the message: bytes for one with a length, else a number. */
type Fields = ReadonlyMap<number, readonly (Uint8Array | number)[]>;

class Malformed extends Error {}

const VARINT = 0;
const FIXED_64 = 1;
const DELIMITED = 2;
const FIXED_32 = 5;
/** The continuation bit of a varint's bytes; the other seven are data. */
const MORE = 0x80;
const BITS = 7;
/** The wire type is in the lowest three bits of a field's key. */
const KINDS = 8;
const LONGEST_VARINT = 10;

export function decodedResponse(base64: string): DeviceResponse | null {
  try {
    const fields = fieldsOf(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)));
    return {
      envs: table(fields, 1),
      mounts: messages(fields, 2).map((mount) => ({
        containerPath: text(mount, 1),
        hostPath: text(mount, 2),
        readOnly: mount.get(3)?.at(-1) === 1,
      })),
      devices: messages(fields, 3).map((device) => ({
        containerPath: text(device, 1),
        hostPath: text(device, 2),
        permissions: text(device, 3),
      })),
      annotations: table(fields, 4),
      cdiDevices: messages(fields, 5).map((device) => text(device, 1)),
    };
  } catch {
    return null;
  }
}

function fieldsOf(bytes: Uint8Array): Fields {
  const reader = { bytes, at: 0 };
  const fields = new Map<number, (Uint8Array | number)[]>();
  while (reader.at < bytes.length) {
    const key = readVarint(reader);
    const number = Math.floor(key / KINDS);
    fields.set(number, [...(fields.get(number) ?? []), readValue(reader, key % KINDS)]);
  }
  return fields;
}

function readValue(reader: Reader, kind: number): Uint8Array | number {
  if (kind === VARINT) return readVarint(reader);
  if (kind === DELIMITED) return take(reader, readVarint(reader));
  if (kind === FIXED_64) return take(reader, 8);
  if (kind === FIXED_32) return take(reader, 4);
  throw new Malformed();
}

function readVarint(reader: Reader): number {
  let value = 0;
  for (let place = 0; place < LONGEST_VARINT; place += 1) {
    const byte = reader.bytes[reader.at];
    if (byte === undefined) throw new Malformed();
    reader.at += 1;
    value += (byte % MORE) * 2 ** (BITS * place);
    if (byte < MORE) return value;
  }
  throw new Malformed();
}

function take(reader: Reader, length: number): Uint8Array {
  const end = reader.at + length;
  if (end > reader.bytes.length) throw new Malformed();
  const taken = reader.bytes.subarray(reader.at, end);
  reader.at = end;
  return taken;
}

const messages = (fields: Fields, number: number): readonly Fields[] =>
  (fields.get(number) ?? []).map((value) => {
    if (typeof value === 'number') throw new Malformed();
    return fieldsOf(value);
  });

function text(fields: Fields, number: number): string {
  const value = fields.get(number)?.at(-1) ?? new Uint8Array();
  if (typeof value === 'number') throw new Malformed();
  return new TextDecoder().decode(value);
}

/** A map is a list of messages with a key and a value. */
const table = (fields: Fields, number: number): Readonly<Record<string, string>> =>
  Object.fromEntries(messages(fields, number).map((entry) => [text(entry, 1), text(entry, 2)]));
