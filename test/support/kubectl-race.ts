/**
 * kubectl before 1.34 listens to a WebSocket before it has made its streams, and throws away what came first
 * (kubernetes/kubernetes#131189): some of the output, or how the command ended. It says so, and then it is asked again.
 */

/** What it says of each message, with the end of the line. */
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
