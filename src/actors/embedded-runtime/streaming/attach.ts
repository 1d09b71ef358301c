/** Connects a client to the streams of the process that a container already runs. */
import { wrongState } from '../errors.ts';
import { type Attachment, attachTo } from '../process/attach-socket.ts';
import { stateOf } from '../status.ts';
import type { Container } from '../store/store.ts';
import type { CommandStreams } from './command-streams.ts';

/** @throws CriError if no process runs */
export function checkAttach(container: Container): void {
  if (!container.running)
    throw wrongState(`failed to attach to container: container is in ${stateOf(container)} state`);
}

/**
 * Connects a client to the streams of a container's own process, until one of them ends. As in containerd, a client
 * whose input has ended is detached, unless the container's input ends with it.
 *
 * Resolves at the end of the attachment. Rejects if the container is unreachable, and for a client that was
 * disconnected.
 */
export async function attachStreams(container: Container, streams: CommandStreams): Promise<void> {
  checkAttach(container);
  let isWhole = false;
  const attachment = await attachTo(container.directory, {
    output: (channel, data) => {
      const to = streams[channel];
      if (!to || to.write(data)) return;
      attachment.socket.pause();
      to.once('drain', () => attachment.socket.resume());
    },
    ended: () => {
      isWhole = true;
    },
  });
  const over = new Promise<void>((resolve) => {
    const leave = () => {
      isWhole = true;
      resolve();
    };
    attachment.socket.once('close', () => resolve());
    streams.gone.addEventListener('abort', leave);
    streams.sizes.follow(attachment.resize);
    forwardInput(streams, attachment, container.record.terminal?.stdinOnce === true ? () => {} : leave);
  });
  await over;
  attachment.socket.destroy();
  if (!isWhole) throw wrongState('the container wrote faster than its output was read');
}

function forwardInput({ stdin }: CommandStreams, attachment: Attachment, left: () => void): void {
  stdin?.on('data', (data: Buffer) => {
    if (attachment.input(data)) return;
    stdin.pause();
    attachment.socket.once('drain', () => stdin.resume());
  });
  stdin?.once('end', () => {
    attachment.endInput();
    left();
  });
}
