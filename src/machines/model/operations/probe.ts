/** What the node agent asks of the programs in containers: probes and HTTP hooks. Implemented by `src/actors/probe`. */
import { once, type SecretHandle, stream } from '../../../kernel/xstate.ts';

/** The value may be the name of a handle. */
export interface Header {
  readonly name: string;
  readonly value: string;
}

/** One probe with everything resolved: no named port, no address of a pod that is still to be found. */
export type ProbeHandler =
  | {
      readonly kind: 'exec';
      readonly containerId: string;
      readonly command: readonly string[];
      /** What stands in the command by the names of handles. */
      readonly secrets?: readonly SecretHandle[];
      /** What people wrote as words of the command, which an error may quote. */
      readonly words?: readonly SecretHandle[];
    }
  | { readonly kind: 'httpGet'; readonly url: string; readonly headers: readonly Header[] }
  | { readonly kind: 'tcpSocket'; readonly host: string; readonly port: number }
  | { readonly kind: 'grpc'; readonly host: string; readonly port: number; readonly service: string };

export type Verdict = 'success' | 'failure';

export interface ProbeWatch {
  readonly handler: ProbeHandler;
  readonly periodSeconds: number;
  readonly timeoutSeconds: number;
  /** So many equal results in a row are a verdict. */
  readonly successThreshold: number;
  readonly failureThreshold: number;
  /** The verdict that holds until another is reached; `null`: none yet. */
  readonly verdict: Verdict | null;
}

/** How one attempt ended, where it is worth an event. An attempt that errored counts for no verdict. */
export type ProbeReport = {
  readonly type: 'probe.reported';
  readonly result: 'failure' | 'warning' | 'errored';
  readonly output: string;
};

export type ProbeJudged = { readonly type: 'probe.judged'; readonly verdict: Verdict };

export const probeOperations = {
  /**
   * Probes at once and then each period, and emits when the verdict changes, and of each attempt that people should
   * read about, as long as these are not too many.
   */
  'probe.watch': stream<ProbeWatch, ProbeReport | ProbeJudged>(),
  /** A lifecycle hook. Any answer is a success; `fellBack`: the server spoke HTTP where HTTPS was asked for. */
  'probe.httpHook': once<{ url: string; headers: readonly Header[] }, { fellBack: boolean }>(),
};
