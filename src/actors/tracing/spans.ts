/**
 * Derives spans from the kernel's records, so that tracing needs nothing from machines.
 *
 * Consecutive work on a pod is one trace: `syncPod`, and below it each call of the runtime by the name of its RPC, and
 * each other operation by its own name. Other operations are traces of their own. Owns the open spans. Names are the
 * kubelet's (KEP-2831).
 */
import {
  type Attributes,
  type Context,
  context,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type { EffectRequest } from '../../kernel/effects.ts';
import type { KernelRecord, ResultRecord } from '../../kernel/records.ts';
import { traceparentOf } from './propagation.ts';

/** The attributes of a pod's spans. */
export interface TracedPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

interface Open {
  readonly span: Span;
  readonly pod: string | null;
  /** One call of the runtime. */
  readonly isCall: boolean;
}

const POD = /^kubelet\/pods\/pod-[^/]+/;
const IMAGE_CALLS = new Set(['listImages', 'imageStatus', 'pullImage', 'removeImage', 'imageFsInfo']);

/** Operations that make several calls. */
const INSPECTIONS = new Set(['podStatus']);

type Request = Pick<EffectRequest, 'id' | 'at' | 'name'>;

/** `cri.runPodSandbox` is `runtime.v1.RuntimeService/RunPodSandbox`. */
export function spanName(operation: string): string {
  const [system, verb = ''] = operation.split('.');
  if (system !== 'cri' || INSPECTIONS.has(verb)) return operation;
  const service = IMAGE_CALLS.has(verb) ? 'ImageService' : 'RuntimeService';
  return `runtime.v1.${service}/${verb.charAt(0).toUpperCase()}${verb.slice(1)}`;
}

const isCall = (operation: string): boolean => spanName(operation) !== operation;

/** A call of the runtime has what upstream's library for gRPC tells of one. */
const kindOf = (operation: string): { kind?: SpanKind; attributes?: Attributes } =>
  isCall(operation)
    ? { kind: SpanKind.CLIENT, attributes: { 'rpc.method': spanName(operation), 'rpc.system.name': 'grpc' } }
    : {};

/** `DEADLINE_EXCEEDED` is `DeadlineExceeded` in Go. */
const goCode = (code = 'OK'): string =>
  code === 'OK' ? code : code.toLowerCase().replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());

export class Spans {
  private readonly tracer: Tracer;
  private readonly podAt: (address: string) => TracedPod | null;
  private readonly open = new Map<number, Open>();
  /** By address of a pod, its trace and the number of its operations in progress. */
  private readonly pods = new Map<string, { readonly span: Span; readonly context: Context; count: number }>();
  private nowMs = 0;

  constructor(tracer: Tracer, podAt: (address: string) => TracedPod | null) {
    this.tracer = tracer;
    this.podAt = podAt;
  }

  /** @param records of one turn, or of several: records after an answer in its own turn belong to the same trace */
  take(records: readonly KernelRecord[]): void {
    for (const record of records) {
      if ('t' in record && typeof record.t === 'number') this.nowMs = record.t;
      if (record.k === 'effect' && record.class !== 'stream') this.begun(record);
      if (record.k === 'result') this.ended(record.id, record);
      if (record.k === 'cancel') this.ended(record.id, null);
    }
    for (const [address, { span, count }] of this.pods) {
      if (count > 0) continue;
      span.end(this.nowMs);
      this.pods.delete(address);
    }
  }

  /** Begins the span of a request that is about to be performed, at `nowMs`; the header of its calls. */
  traceparentOf(request: EffectRequest, nowMs: number): string | null {
    if (request.class === 'stream') return null;
    this.nowMs = Math.max(this.nowMs, nowMs);
    return traceparentOf(this.begun(request).spanContext());
  }

  private begun({ id, at, name }: Request): Span {
    const known = this.open.get(id);
    if (known) return known.span;
    const pod = POD.exec(at)?.[0] ?? null;
    const parent = pod === null ? context.active() : this.podContext(pod);
    const span = this.tracer.startSpan(spanName(name), { startTime: this.nowMs, ...kindOf(name) }, parent);
    this.open.set(id, { span, pod, isCall: isCall(name) });
    return span;
  }

  private podContext(address: string): Context {
    const known = this.pods.get(address);
    if (known) {
      known.count += 1;
      return known.context;
    }
    const pod = this.podAt(address);
    const attributes = pod && {
      'k8s.pod.uid': pod.uid,
      'k8s.pod.name': pod.name,
      'k8s.namespace.name': pod.namespace,
    };
    const span = this.tracer.startSpan('syncPod', {
      startTime: this.nowMs,
      root: true,
      ...(attributes && { attributes }),
    });
    const made = { span, context: trace.setSpan(context.active(), span), count: 1 };
    this.pods.set(address, made);
    return made.context;
  }

  private ended(id: number, result: ResultRecord | null): void {
    const found = this.open.get(id);
    if (!found) return;
    this.open.delete(id);
    if (found.isCall && result) found.span.setAttribute('rpc.response.status_code', goCode(result.error?.code));
    if (result?.error) found.span.setStatus({ code: SpanStatusCode.ERROR, message: result.error.message });
    found.span.end(this.nowMs);
    const pod = found.pod === null ? undefined : this.pods.get(found.pod);
    if (pod) pod.count -= 1;
  }
}
