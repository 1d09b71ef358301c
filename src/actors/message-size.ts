/**
 * Counts the fields of an encoded message before it is decoded. A part of two bytes becomes an object with all its
 * fields: a message of one megabyte could take seconds, and one of sixteen all memory.
 */
import protobuf from 'protobufjs';
import { OperationError } from '../kernel/json.ts';

const { Reader, Type, MapField } = protobuf;

/** A field with a length before its content: text, bytes, a message, or packed numbers. */
const DELIMITED = 2;
const NOT_PACKED: ReadonlySet<string> = new Set(['string', 'bytes']);
/** The field of a map's entry that has its value. */
const ENTRY_VALUE = 2;

/** A message: how many fields it has when it is decoded, and what those with a length contain, by number. */
interface Shape {
  readonly fieldCount: number;
  readonly contents: readonly (Content | undefined)[];
}

/** Of text and bytes, and of what the contract lacks, nothing is counted. */
type Content = 'packed' | Shape;

/**
 * In time linear in the bytes.
 *
 * @throws OperationError if the message has more than `max` fields, in all its parts and with those that are empty
 * @throws RangeError or Error if the bytes are no message
 */
export function limitFields(type: protobuf.Type, bytes: Uint8Array, max: number): void {
  const reader = Reader.create(bytes);
  let count = 0;
  const add = (more: number): void => {
    count += more;
    if (count <= max) return;
    throw new OperationError(`the message ${type.name} has more than ${max} fields`, { code: 'RESOURCE_EXHAUSTED' });
  };
  const takeContent = (content: Content | undefined): void => {
    const length = reader.uint32();
    const end = reader.pos + length;
    if (end > reader.len) throw new RangeError(`a field of ${length} bytes is longer than its message`);
    if (content === 'packed') add(length);
    else if (content !== undefined) takeMessage(content, end);
    reader.pos = end;
  };
  const takeMessage = ({ fieldCount, contents }: Shape, end: number): void => {
    add(fieldCount);
    while (reader.pos < end) {
      const tag = reader.uint32();
      add(1);
      if ((tag & 7) === DELIMITED) takeContent(contents[tag >>> 3]);
      else reader.skipType(tag & 7);
    }
  };
  takeMessage(shapeOf(type), reader.len);
}

const shapes = new WeakMap<protobuf.Type, Shape>();

function shapeOf(type: protobuf.Type): Shape {
  const known = shapes.get(type);
  if (known) return known;
  const contents: (Content | undefined)[] = [];
  const shape = { fieldCount: type.fieldsArray.length, contents };
  // Noted before its parts are looked at: a type may contain itself.
  shapes.set(type, shape);
  for (const field of type.fieldsArray) contents[field.id] = contentOf(field);
  return shape;
}

function contentOf(field: protobuf.Field): Content | undefined {
  const { resolvedType: part } = field.resolve();
  const content = part instanceof Type ? shapeOf(part) : undefined;
  if (field instanceof MapField) return entryOf(content);
  return content === undefined && field.repeated && !NOT_PACKED.has(field.type) ? 'packed' : content;
}

function entryOf(value: Content | undefined): Shape {
  const contents: (Content | undefined)[] = [];
  contents[ENTRY_VALUE] = value;
  return { fieldCount: 2, contents };
}
