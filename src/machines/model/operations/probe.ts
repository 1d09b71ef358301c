/** Operations on the programs in containers: probes and HTTP hooks. Implemented by `src/actors/probe`. */
import { once, type SecretHandle, stream } from '../../../kernel/xstate.ts';

/** A header; the value may be the name of a handle. */
export interface Header {
  readonly name: string;
  readonly value: string;
}

/** One probe with everything resolved: ports are numbers, and the host is the pod's address. */
export type ProbeHandler =
  | {
      readonly kind: 'exec';
      readonly containerId: string;
      readonly command: readonly string[];
      /** Handles whose names occur in the command. */
      readonly secrets?: readonly SecretHandle[];
      /** Words of the command in the pod's definition, which an error may quote. */
      readonly words?: readonly SecretHandle[];
    }
  | { readonly kind: 'httpGet'; readonly url: string; readonly headers: readonly Header[] }
  | { readonly kind: 'tcpSocket'; readonly host: string; readonly port: number }
  | { readonly kind: 'grpc'; readonly host: string; readonly port: number; readonly service: string };

export type Verdict = 'success' | 'failure';

export interface ProbeWatch {
  readonly handler: ProbeHandler;
  readonly periodSeconds: number;
  /** The period while the verdict is not success; absent: `periodSeconds`. */
  readonly unreadyPeriodSeconds?: number;
  readonly timeoutSeconds: number;
  /** The number of equal results in a row that make a verdict. */
  readonly successThreshold: number;
  readonly failureThreshold: number;
  /** The verdict until the next one is reached; `null` for none yet. */
  readonly verdict: Verdict | null;
}

/** An attempt that is recorded as an event. An attempt that could not be made does not count for a verdict. */
export type ProbeReport = {
  readonly type: 'probe.reported';
  readonly result: 'failure' | 'warning' | 'errored';
  readonly output: string;
  /** The state that an errored attempt resulted in; absent: unknown. */
  readonly state?: 'failure';
};

export type ProbeJudged = { readonly type: 'probe.judged'; readonly verdict: Verdict };

export const probeOperations = {
  /**
   * Probes at once and then each period. Emits changes of the verdict, and attempts that are worth an event, with a
   * rate limit.
   */
  'probe.watch': stream<ProbeWatch, ProbeReport | ProbeJudged>(),
  /** A lifecycle hook. Any answer is a success; `fellBack`: the server spoke HTTP although HTTPS was requested. */
  'probe.httpHook': once<{ url: string; headers: readonly Header[] }, { fellBack: boolean }>(),
};
