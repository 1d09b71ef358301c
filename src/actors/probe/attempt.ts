/** How one attempt of a probe ended. Texts are what a Go kubelet writes into its events. */
export interface Attempt {
  /** `errored`: it could not be made, or its answer could not be read; it counts for no verdict. */
  readonly result: 'success' | 'warning' | 'failure' | 'errored';
  readonly output: string;
}

/** How much of an answer is read and reported; the rest is left. */
export const OUTPUT_MAX_BYTES = 10 * 1024;

export const success = (output: string): Attempt => ({ result: 'success', output });
export const failure = (output: string): Attempt => ({ result: 'failure', output });
export const errored = (output: string): Attempt => ({ result: 'errored', output });

/** Makes one attempt within its time. Never rejects but for faults of this program. */
export interface AttemptOptions {
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}
