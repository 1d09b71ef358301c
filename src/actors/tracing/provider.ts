/** The exporter of spans by OTLP. Its libraries are loaded only on a node with tracing. */
import type { Tracer } from '@opentelemetry/api';

/** The field `tracing` of the configuration. */
export interface TracingConfiguration {
  /** Host and port of the collector. */
  readonly endpoint?: string;
  /** How many of a million traces that begin here are recorded; those of a client that records its own always are. */
  readonly samplingRatePerMillion?: number;
}

export interface SpanProvider {
  readonly tracer: Tracer;
  /** Sends the spans that wait in the queue. */
  readonly close: () => Promise<void>;
}

/** Upstream's default of `tracing.endpoint`: a collector on this machine. */
export const DEFAULT_ENDPOINT = 'localhost:4317';
const PER_MILLION = 1_000_000;

export async function openProvider(
  { endpoint = DEFAULT_ENDPOINT, samplingRatePerMillion = 0 }: TracingConfiguration,
  nodeName: string,
  version: string,
): Promise<SpanProvider> {
  const [sdk, { OTLPTraceExporter }, { resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-grpc'),
    import('@opentelemetry/resources'),
  ]);
  const provider = new sdk.TracerProvider({
    sampler: new sdk.ParentBasedSampler({
      root: new sdk.TraceIdRatioBasedSampler(samplingRatePerMillion / PER_MILLION),
    }),
    resource: resourceFromAttributes({
      'service.name': 'kubelet',
      'service.version': version,
      'host.name': nodeName,
    }),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new OTLPTraceExporter({ url: `http://${endpoint}` }) })],
  });
  return { tracer: provider.getTracer('statelet', version), close: () => provider.shutdown() };
}
