import { SpanKind } from '@opentelemetry/api';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { expect, it } from 'vitest';
import { Spans, spanName } from '../../../src/actors/tracing/spans.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';

const POD = 'kubelet/pods/pod-u1';

function recorded() {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const spans = new Spans(provider.getTracer('test'), () => ({ uid: 'u1', namespace: 'default', name: 'web' }));
  return { spans, finished: () => exporter.getFinishedSpans() };
}

const asked = (n: number, id: number, at: string, name: string): KernelRecord => ({
  n,
  k: 'effect',
  id,
  at,
  name,
  class: 'once',
  input: {},
});
const answered = (n: number, id: number, t: number, error?: string): KernelRecord => ({
  n,
  k: 'result',
  t,
  id,
  at: POD,
  name: 'x',
  ...(error === undefined ? {} : { error: { name: 'Error', message: error, retriable: false } }),
});

it('operations of a pod that overlap are one trace, and the next burst is another', () => {
  const { spans, finished } = recorded();
  spans.take([asked(1, 1, `${POD}/sandbox`, 'cri.runPodSandbox'), asked(2, 2, `${POD}/image`, 'cri.pullImage')]);
  spans.take([answered(3, 1, 1_000), answered(4, 2, 1_500)]);
  spans.take([asked(5, 3, `${POD}/x`, 'cri.stopPodSandbox')]);
  spans.take([answered(6, 3, 2_000)]);
  const byName = Object.fromEntries(finished().map((span) => [span.name, span.spanContext().traceId]));
  expect(finished().map(({ name }) => name)).toEqual([
    'runtime.v1.RuntimeService/RunPodSandbox',
    'runtime.v1.ImageService/PullImage',
    'syncPod',
    'runtime.v1.RuntimeService/StopPodSandbox',
    'syncPod',
  ]);
  expect(byName['runtime.v1.RuntimeService/RunPodSandbox']).toBe(byName['runtime.v1.ImageService/PullImage']);
  expect(byName['runtime.v1.RuntimeService/StopPodSandbox']).not.toBe(byName['runtime.v1.ImageService/PullImage']);
});

it('a failure is told, and a cancelled operation ends its span', () => {
  const { spans, finished } = recorded();
  spans.take([asked(1, 1, POD, 'volume.setUp'), asked(2, 2, POD, 'cri.execSync')]);
  spans.take([answered(3, 1, 1_000, 'no space left on device'), { n: 4, k: 'cancel', id: 2 }]);
  expect(finished().map(({ name, status }) => [name, status.message])).toEqual([
    ['volume.setUp', 'no space left on device'],
    ['runtime.v1.RuntimeService/ExecSync', undefined],
    ['syncPod', undefined],
  ]);
});

it('a request that begins before its records are told has one span, which its calls carry', () => {
  const { spans, finished } = recorded();
  const request = { id: 1, at: `${POD}/sandbox`, name: 'cri.runPodSandbox', class: 'once', input: {} } as const;
  const header = spans.traceparentOf(request, 500);
  spans.take([asked(1, 1, request.at, request.name)]);
  spans.take([
    {
      ...answered(2, 1, 1_000, 'late'),
      error: { name: 'E', message: 'late', retriable: true, code: 'DEADLINE_EXCEEDED' },
    } as KernelRecord,
  ]);
  const [call, pod] = finished();
  expect(finished()).toHaveLength(2);
  expect(header).toBe(`00-${call?.spanContext().traceId}-${call?.spanContext().spanId}-01`);
  expect(call?.spanContext().traceId).toBe(pod?.spanContext().traceId);
  expect(call).toMatchObject({
    kind: SpanKind.CLIENT,
    attributes: {
      'rpc.method': 'runtime.v1.RuntimeService/RunPodSandbox',
      'rpc.system.name': 'grpc',
      'rpc.response.status_code': 'DeadlineExceeded',
    },
  });
  expect(spans.traceparentOf({ ...request, id: 2, class: 'stream' }, 1_500)).toBeNull();
});

it('calls of the runtime have the names of its contract', () => {
  expect(spanName('cri.podStatus')).toBe('cri.podStatus');
  expect(spanName('cri.listImages')).toBe('runtime.v1.ImageService/ListImages');
  expect(spanName('kube.patch')).toBe('kube.patch');
});
