/** The status of a command or an attachment for its client: a `metav1.Status` with upstream's texts. */

export const SUCCESS = { metadata: {}, status: 'Success' };

/** @param command as given by its client */
export const exitStatus = (command: readonly string[], code: number): object =>
  code === 0
    ? SUCCESS
    : {
        metadata: {},
        status: 'Failure',
        message: `command terminated with non-zero exit code: error executing command [${command.join(' ')}], exit code ${code}`,
        reason: 'NonZeroExitCode',
        details: { causes: [{ reason: 'ExitCode', message: String(code) }] },
      };

/** The status of a command that could not run, or of a failed attach. */
export const failureStatus = (why: string): object => ({
  metadata: {},
  status: 'Failure',
  message: `Internal error occurred: ${why}`,
  reason: 'InternalError',
  details: { causes: [{ message: why }] },
  code: 500,
});
