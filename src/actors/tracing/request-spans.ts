/**
 * Spans of the requests to the node's API, below the span of the client that sent one.
 *
 * Names and attributes are those of upstream's library for its router (otelrestful; semantic conventions 1.39). As
 * there, a request has a span when it was authorized, and what the runtime is asked for it belongs to that span.
 */
import type { IncomingMessage } from 'node:http';
import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { valueIn } from '../../machines/model/values/tables.ts';
import { remoteSpan, traceparentOf } from './propagation.ts';

/** The limit of a text of the client's in a span. */
const TEXT_MAX_CHARS = 1_024;

export interface RequestSpan {
  /** For the calls that answer the request. */
  readonly traceparent: string;
  readonly end: (status: number) => void;
}

/** `isPublic`: clients are not authenticated, so the span is only linked to theirs. */
export function requestSpan(tracer: Tracer, route: string, request: TracedRequest, isPublic = false): RequestSpan {
  const header = request.raw.headers['traceparent'];
  const remote = typeof header === 'string' ? remoteSpan(header) : null;
  const parent = remote && !isPublic ? trace.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT;
  const template = templateOf(route);
  const span = tracer.startSpan(
    template,
    {
      kind: SpanKind.SERVER,
      attributes: attributesOf(request, template),
      ...(remote && isPublic ? { links: [{ context: remote }] } : {}),
    },
    parent,
  );
  return { traceparent: traceparentOf(span.spanContext()), end: (status) => ended(span, status) };
}

export interface TracedRequest {
  readonly method: string;
  readonly path: string;
  readonly raw: IncomingMessage;
}

/** By our name of a path parameter, upstream's. */
const PARAMETERS: Readonly<Record<string, string>> = {
  namespace: 'podNamespace',
  pod: 'podID',
  container: 'containerName',
};

/** `/exec/:namespace/:pod/:container` is `/exec/{podNamespace}/{podID}/{containerName}`. */
const templateOf = (route: string): string =>
  route.replaceAll(/:(\w+)/g, (_, name: string) => `{${valueIn(PARAMETERS, name) ?? name}}`);

function attributesOf({ method, path, raw }: TracedRequest, template: string): Attributes {
  const { socket, headers, httpVersion } = raw;
  const isSecure = 'encrypted' in socket;
  const port = /:(\d{1,5})$/.exec(headers.host ?? '')?.[1];
  const forwarded = String(headers['x-forwarded-for'] ?? '').split(',', 1)[0];
  return {
    'server.address': 'kubelet',
    'http.request.method': method,
    'url.scheme': isSecure ? 'https' : 'http',
    'url.path': path.slice(0, TEXT_MAX_CHARS),
    'http.route': template,
    'network.protocol.version': httpVersion,
    ...(port === undefined ? {} : { 'server.port': Number(port) }),
    ...(socket.remoteAddress === undefined ? {} : { 'network.peer.address': socket.remoteAddress }),
    ...(socket.remotePort === undefined ? {} : { 'network.peer.port': socket.remotePort }),
    ...(headers['user-agent'] ? { 'user_agent.original': headers['user-agent'].slice(0, TEXT_MAX_CHARS) } : {}),
    'client.address': (forwarded || socket.remoteAddress || '').slice(0, TEXT_MAX_CHARS),
  };
}

function ended(span: Span, status: number): void {
  span.setAttribute('http.response.status_code', status);
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}
