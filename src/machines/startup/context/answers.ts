/** What the parts of starting answer, and why starting ended. */

/** What a one-shot subsystem answers. */
export type Answer<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly message: string };

/** Why starting ended, in the words of the phase that failed. */
export interface Failure {
  /** State of the chart that was active, such as `run.lockFile`. */
  readonly phase: string;
  readonly message: string;
  readonly exitCode: number;
  /** What upstream's command ends with on stderr, without klog's headers; default: one line that has the message. */
  readonly lines?: readonly string[];
}
