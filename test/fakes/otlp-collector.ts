/** A collector of traces: OTLP over gRPC for spans, on a port of its own. */
import * as grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs';

/** The fields of opentelemetry-proto that the tests read; a decoder skips the others. */
const PROTO = `syntax = "proto3";
message Request { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { repeated Span spans = 2; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9; Status status = 15;
}
message Status { string message = 2; int32 code = 3; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { string string_value = 1; }
message Response {}`;

interface KeyValue {
  readonly key: string;
  readonly value: { readonly string_value: string };
}

export interface CollectedSpan {
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string;
  readonly name: string;
  readonly attributes: readonly KeyValue[];
  readonly status?: { readonly message: string; readonly code: number };
}

interface Request {
  readonly resource_spans: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] };
    readonly scope_spans: readonly { readonly spans: readonly CollectedSpan[] }[];
  }[];
}

const EXPORT = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';

export async function startCollector() {
  const { root } = protobuf.parse(PROTO, { keepCase: true });
  const [request, response] = [root.lookupType('Request'), root.lookupType('Response')];
  const spans: CollectedSpan[] = [];
  const resources: (readonly KeyValue[])[] = [];
  const server = new grpc.Server();
  const definition: grpc.ServiceDefinition = {
    Export: {
      path: EXPORT,
      requestStream: false,
      responseStream: false,
      requestSerialize: (value: object) => Buffer.from(request.encode(value).finish()),
      requestDeserialize: (bytes: Buffer) =>
        request.toObject(request.decode(bytes), { bytes: String, longs: String, defaults: true, arrays: true }),
      responseSerialize: (value: object) => Buffer.from(response.encode(value).finish()),
      responseDeserialize: (bytes: Buffer) => response.decode(bytes),
    },
  };
  server.addService(definition, {
    Export: (call: grpc.ServerUnaryCall<Request, object>, done: grpc.sendUnaryData<object>) => {
      for (const { resource, scope_spans } of call.request.resource_spans) {
        resources.push(resource.attributes);
        for (const scope of scope_spans) spans.push(...scope.spans);
      }
      done(null, {});
    },
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  return { endpoint: `127.0.0.1:${port}`, spans, resources, close: () => server.forceShutdown() };
}
