/**
 * Whether the requests of one port are traced, by the configuration of the node.
 *
 * Invariants: a request never waits for the exporter, and has no span before it is loaded; a node that cannot export
 * serves all the same.
 */
import { messageOf } from '../../kernel/thrown.ts';
import type { SpanProvider, TracingConfiguration } from './provider.ts';
import type { RequestSpan, requestSpan, TracedRequest } from './request-spans.ts';

type Awaitable<Value> = Value | Promise<Value>;

export interface RequestTracingOptions {
  readonly view: { readonly configuration: () => Awaitable<{ readonly tracing?: TracingConfiguration }> };
  readonly program: { readonly version: string };
  readonly warn: (sentence: string) => void;
}

export class RequestTracing {
  readonly #options: RequestTracingOptions;
  readonly #nodeName: string;
  readonly #isPublic: boolean;
  #begun: { readonly provider: SpanProvider; readonly requestSpan: typeof requestSpan } | undefined;
  #isClosed = false;

  /** `isPublic`: clients of the port are not authenticated. */
  constructor(options: RequestTracingOptions, nodeName: string, isPublic: boolean) {
    this.#options = options;
    this.#nodeName = nodeName;
    this.#isPublic = isPublic;
    this.#open().catch((error: unknown) => options.warn(`requests are not traced: ${messageOf(error)}`));
  }

  readonly begin = (route: string, request: TracedRequest): RequestSpan | null =>
    this.#begun?.requestSpan(this.#begun.provider.tracer, route, request, this.#isPublic) ?? null;

  /** Sends what waits, while the collector takes it. */
  close(): void {
    this.#isClosed = true;
    this.#begun?.provider.close().catch(() => {});
  }

  async #open(): Promise<void> {
    const { tracing } = await this.#options.view.configuration();
    if (tracing === undefined) return;
    const [{ openProvider }, { requestSpan }] = await Promise.all([
      import('./provider.ts'),
      import('./request-spans.ts'),
    ]);
    const provider = await openProvider(tracing, this.#nodeName, this.#options.program.version);
    this.#begun = { provider, requestSpan };
    if (this.#isClosed) this.close();
  }
}
