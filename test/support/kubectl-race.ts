/**
 * kubectl before 1.34 listens to a WebSocket before it has created its streams, and drops the first messages
 * (kubernetes/kubernetes#131189): some of the output, or the status of the command. It reports this, and the command is
 * then run again.
 */

/** kubectl's line for each dropped message, with the line break. */
const LOST = /websocket\.go:\d+\] Unknown stream id \d, .*\r?\n/;

const ATTEMPTS_MAX = 5;

/** For a command that may run twice. */
export async function untilNothingIsLost<Output extends { readonly stderr: string | Buffer }>(
  run: () => Promise<Output>,
): Promise<Output> {
  let output = await run();
  for (let attempt = 1; attempt < ATTEMPTS_MAX && LOST.test(String(output.stderr)); attempt++) output = await run();
  return output;
}
