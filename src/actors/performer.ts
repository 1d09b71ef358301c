/**
 * Performs the kernel's requests through the ports: one promise and one AbortSignal each.
 *
 * Invariants: P1 a port that throws, rejects or returns a value outside JSON only fails its request, with a plain
 * error. P2 a cancelled request is never answered.
 */
import type { EffectRequest, Performer } from '../kernel/effects.ts';
import { OperationError, toPlainError } from '../kernel/json.ts';
import type { OperationTable, Port, Ports } from '../kernel/operation.ts';

type AnyPort = Port<never>;
type Around = <Result>(request: EffectRequest, perform: () => Result) => Result;

/** `around` performs each request; by itself it is only called. */
export function performerOf<Table extends OperationTable>(
  ports: Ports<Table>,
  around: Around = (_request, perform) => perform(),
): Performer {
  return {
    perform(request, settle, emit) {
      const { id, name, input, resume } = request;
      const abort = new AbortController();
      const port = (ports as Readonly<Record<string, unknown>>)[name] as AnyPort | undefined;
      const call = { id, input: input as never, resume, signal: abort.signal, emit: (item: never) => emit(item) };
      around(request, () => start(name, port, call))
        .then((output) => settle({ output: output ?? null }))
        .catch((thrown: unknown) => settle({ error: toPlainError(thrown) }));
      return () => abort.abort();
    },
  };
}

async function start(name: string, port: AnyPort | undefined, call: Parameters<AnyPort>[0]): Promise<unknown> {
  if (!port) throw new OperationError(`this process cannot perform ${name}`, { code: 'UNIMPLEMENTED' });
  return await port(call);
}
