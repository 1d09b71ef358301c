/**
 * A gRPC contract, read from the files of `proto/`: the calls of its services, for `@grpc/grpc-js`.
 *
 * Messages are plain objects with the field names of the files: 64-bit integers as text, enums by name, all fields
 * present.
 * Invariant: the codec of a type is generated on first use. protobufjs would generate all codecs at once, and
 * `@grpc/proto-loader` also descriptors, which takes about 50 ms of each start.
 *
 * The fields of an encoded message are counted before it is decoded: a part of two bytes becomes an object with all its
 * fields, so that a message of one megabyte could take seconds, and one of sixteen all memory.
 */
import type * as grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import { OperationError } from '../kernel/json.ts';
import { PROTO_DIRECTORY } from './package-directory.ts';

interface ContractOptions {
  /** Bytes as base64 instead of a Buffer. */
  readonly bytes?: StringConstructor;
  /** Fields of a received message, in all its parts. Default {@link FIELDS_MAX}. */
  readonly fieldsMax?: number;
}

type Method<Request, Reply> = grpc.MethodDefinition<Request, Reply>;
type GeneratedMethod = 'encode' | 'decode' | 'fromObject' | 'toObject';

/** protobufjs's own generators, and the names that their code refers to. */
const { encoder, decoder, converter, Reader, Writer, Type, MapField, util } = protobuf;
const GENERATORS: Readonly<Record<GeneratedMethod, (type: protobuf.Type, types: readonly unknown[]) => unknown>> = {
  encode: (type, types) => encoder(type)({ Writer, types, util }),
  decode: (type, types) => decoder(type)({ Reader, types, util }),
  fromObject: (type, types) => converter.fromObject(type)({ types, util }),
  toObject: (type, types) => converter.toObject(type)({ types, util }),
};

/** Fields of a received message: a plugin's eight thousand devices with their NUMA nodes have fewer. */
const FIELDS_MAX = 262_144;
/** A message of fewer bytes is decoded in milliseconds, whatever its fields. */
const UNCOUNTED_BYTES = 64 * 1024;

export class Contract {
  readonly #files: readonly string[];
  readonly #conversion: protobuf.IConversionOptions;
  readonly #fieldsMax: number;
  readonly #methods = new Map<string, Method<object, object> | undefined>();
  #read: protobuf.Root | undefined;
  /** By full name. protobufjs's own lookup remembers each name that it does not find, for ever. */
  #types: ReadonlyMap<string, protobuf.Type> | undefined;

  /** Files by their paths below `proto/`, read on first use. */
  constructor(files: readonly string[], { fieldsMax = FIELDS_MAX, ...options }: ContractOptions = {}) {
    this.#files = files;
    this.#fieldsMax = fieldsMax;
    this.#conversion = { longs: String, enums: String, defaults: true, ...options };
  }

  get #root(): protobuf.Root {
    this.#read ??= read(this.#files);
    return this.#read;
  }

  /** Every call of a service, such as `runtime.v1.RuntimeService`. */
  service(name: string): grpc.ServiceDefinition {
    const { methodsArray } = this.#root.lookupService(name);
    return Object.fromEntries(methodsArray.map((method) => [method.name, this.#definition(name, method)]));
  }

  /** One call, or `undefined` if the service lacks it. The caller asserts its types. */
  method<Request, Reply>(service: string, name: string): Method<Request, Reply> | undefined {
    const key = `${service}/${name}`;
    if (!this.#methods.has(key)) {
      const method = this.#root.lookupService(service).methods[name];
      this.#methods.set(key, method && this.#definition(service, method));
    }
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract is text, read at run time
    return this.#methods.get(key) as Method<Request, Reply> | undefined;
  }

  /** A message by the name of its type; `undefined` if the contract lacks it. */
  decode(typeName: string, bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined {
    this.#types ??= new Map(typesOf(this.#root).map((each) => [each.fullName.slice(1), each]));
    const type = this.#types.get(typeName);
    return type && this.#decode(type, bytes);
  }

  #definition(service: string, method: protobuf.Method): Method<object, object> {
    const { name, requestStream, responseStream } = method;
    method.resolve();
    const { resolvedRequestType: request, resolvedResponseType: response } = method;
    if (request === null || response === null) throw new Error(`the contract has no types for ${service}/${name}`);
    return {
      path: `/${service}/${name}`,
      requestStream: requestStream === true,
      responseStream: responseStream === true,
      requestSerialize: (message) => encode(request, message),
      requestDeserialize: (bytes) => this.#decode(request, bytes),
      responseSerialize: (message) => encode(response, message),
      responseDeserialize: (bytes) => this.#decode(response, bytes),
    };
  }

  #decode(type: protobuf.Type, bytes: Uint8Array): Record<string, unknown> {
    if (bytes.length > UNCOUNTED_BYTES) limitFields(type, bytes, this.#fieldsMax);
    return type.toObject(type.decode(bytes), this.#conversion);
  }
}

function encode(type: protobuf.Type, message: object): Buffer {
  const { buffer, byteOffset, byteLength } = type.encode(type.fromObject(message)).finish();
  return Buffer.from(buffer, byteOffset, byteLength);
}

function read(files: readonly string[]): protobuf.Root {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => `${PROTO_DIRECTORY}/${target}`;
  root.loadSync([...files], { keepCase: true });
  root.resolveAll();
  for (const type of typesOf(root)) generateOnFirstUse(type);
  return root;
}

const typesOf = (space: protobuf.NamespaceBase): protobuf.Type[] =>
  space.nestedArray.flatMap((each) => [
    ...(each instanceof protobuf.Type ? [each] : []),
    ...(each instanceof protobuf.Namespace ? typesOf(each) : []),
  ]);

function generateOnFirstUse(type: protobuf.Type): void {
  for (const [name, make] of Object.entries(GENERATORS)) {
    const first = (...given: unknown[]): unknown => {
      const types = type.fieldsArray.map((field) => field.resolve().resolvedType);
      const made = make(type, types) as (...given: unknown[]) => unknown;
      Object.assign(type, { [name]: made });
      return made.apply(type, given);
    };
    Object.assign(type, { [name]: first });
  }
}

/** A field with a length before its content: text, bytes, a message, or packed numbers. */
const DELIMITED = 2;
const NOT_PACKED: ReadonlySet<string> = new Set(['string', 'bytes']);
/** The field of a map's entry that has its value. */
const ENTRY_VALUE = 2;

/**
 * A type of message: the number of its fields once it is decoded, and by number the content of its fields with a
 * length.
 */
interface Shape {
  readonly fieldCount: number;
  readonly contents: readonly (Content | undefined)[];
}

/** The contents of text, of bytes, and of fields that the contract lacks are not counted. */
type Content = 'packed' | Shape;

/**
 * Counts in time linear in the bytes.
 *
 * @throws OperationError if the message has more than `max` fields, in all its parts and with those that are empty
 * @throws RangeError or Error if the bytes are no message
 */
function limitFields(type: protobuf.Type, bytes: Uint8Array, max: number): void {
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
  // Recorded before its parts are read: a type may contain itself.
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
