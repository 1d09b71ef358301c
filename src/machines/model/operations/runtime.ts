/** Getting to a container runtime, before CRI can be spoken. Implemented by `src/actors/runtime/index.ts`. */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';
import type { RuntimeStatus } from './cri.ts';

export interface RuntimeCondition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

/** What the runtime can do, by its handlers. */
export type RuntimeAbilities = Pick<RuntimeStatus, 'handlers' | 'features'>;

export const runtimeOperations = {
  /** Opens the CRI connection of every later `cri.*`. Fails with upstream's text when the runtime does not answer. */
  'runtime.connect': idempotent<
    { endpoint: string; imageEndpoint: string; requestTimeoutMs: number },
    { runtimeName: string; runtimeVersion: string; runtimeApiVersion: string }
  >(),
  /** True when a socket that this user may use exists at the endpoint. */
  'runtime.exists': query<{ endpoint: string }, { exists: boolean }>(),
  /** Starts the embedded runtime in this process and returns its endpoint. */
  'runtime.startEmbedded': idempotent<{ rootDir: string }, { endpoint: string }>(),
  /** Asks for the runtime's conditions every `periodMs`; emits when they changed, or when asking began to fail. */
  'runtime.watchStatus': stream<
    { periodMs: number },
    | ({ readonly type: 'runtime.statusChanged'; readonly conditions: readonly RuntimeCondition[] } & RuntimeAbilities)
    | { readonly type: 'runtime.statusFailed'; readonly message: string }
  >(),
};
