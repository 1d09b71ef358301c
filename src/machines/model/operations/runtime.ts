/** Operations that find and connect a container runtime. Implemented by `src/actors/runtime`. */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';
import type { RuntimeStatus } from './cri.ts';

export interface RuntimeCondition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

export type RuntimeAbilities = Pick<RuntimeStatus, 'handlers' | 'features'>;

export type RuntimeStatusItem =
  | ({
      readonly type: 'runtime.statusChanged';
      readonly conditions: readonly RuntimeCondition[];
      /** The runtime may be replaced while the agent runs; absent: not known. */
      readonly version?: string;
    } & RuntimeAbilities)
  | {
      readonly type: 'runtime.statusFailed';
      readonly message: string;
      /** The time since the last answer, when failures began; absent: there was none, or an earlier agent read it. */
      readonly silentMs?: number;
    };

export const runtimeOperations = {
  /** Opens the CRI connection of every later `cri.*`. Fails with upstream's text if the runtime does not answer. */
  'runtime.connect': idempotent<
    { endpoint: string; imageEndpoint: string; requestTimeoutMs: number },
    { runtimeName: string; runtimeVersion: string; runtimeApiVersion: string }
  >(),
  /** Whether a socket that this user may use exists at the endpoint. */
  'runtime.exists': query<{ endpoint: string }, { exists: boolean }>(),
  /** Starts the embedded runtime in this process and returns its endpoint. */
  'runtime.startEmbedded': idempotent<{ rootDir: string }, { endpoint: string }>(),
  /** Reads the runtime's status and version every `periodMs`; emits changes, and when reading starts to fail. */
  'runtime.watchStatus': stream<{ periodMs: number }, RuntimeStatusItem>(),
};
