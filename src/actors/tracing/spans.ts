/**
 * Derives spans from the kernel's records, so that tracing needs nothing from machines.
 *
 * Consecutive work on a pod is one trace: `syncPod`, and below it each call of the runtime by the name of its RPC, and
 * each other operation by its own name. Other operations are traces of their own. Owns the open spans. Names are the
 * kubelet's (KEP-2831).
 */
import { type Context, context, type Span, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import type { EffectRecord, KernelRecord, ResultRecord } from '../../kernel/records.ts';

/** The attributes of a pod's spans. */
export interface TracedPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

interface Open {
  readonly span: Span;
  readonly pod: string | null;
}

const POD = /^kubelet\/pods\/pod-[^/]+/;
const IMAGE_CALLS = new Set(['listImages', 'imageStatus', 'pullImage', 'removeImage', 'imageFsInfo']);

/** `cri.runPodSandbox` is `runtime.v1.RuntimeService/RunPodSandbox`. */
export function spanName(operation: string): string {
  const [system, verb = ''] = operation.split('.');
  if (system !== 'cri') return operation;
  const service = IMAGE_CALLS.has(verb) ? 'ImageService' : 'RuntimeService';
  return `runtime.v1.${service}/${verb.charAt(0).toUpperCase()}${verb.slice(1)}`;
}

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

  private begun({ id, at, name }: EffectRecord): void {
    const pod = POD.exec(at)?.[0] ?? null;
    const parent = pod === null ? context.active() : this.podContext(pod);
    const span = this.tracer.startSpan(spanName(name), { startTime: this.nowMs }, parent);
    this.open.set(id, { span, pod });
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
    if (result?.error) found.span.setStatus({ code: SpanStatusCode.ERROR, message: result.error.message });
    found.span.end(this.nowMs);
    const pod = found.pod === null ? undefined : this.pods.get(found.pod);
    if (pod) pod.count -= 1;
  }
}
