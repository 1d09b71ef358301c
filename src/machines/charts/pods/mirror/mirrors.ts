/** The messages from sources of static pods to the actors that keep their mirror pods. */
import { to } from '../../../../kernel/xstate.ts';
import type { MirrorMessage } from '../../../model/pods/api-messages.ts';
import type { ConfigMessage } from '../../../model/pods/messages.ts';

interface Enqueue {
  sendTo(target: ReturnType<typeof to>, message: MirrorMessage): void;
}

/** The source has published everything. */
export const sendMirrorsReady = (enqueue: Enqueue, source: 'file' | 'http'): void =>
  enqueue.sendTo(to('mirrorPods'), { type: 'mirror.ready', source });

export function sendMirrors(enqueue: Enqueue, message: ConfigMessage): void {
  const send = (mirror: MirrorMessage): void => enqueue.sendTo(to('mirrorPods'), mirror);
  if (message.op === 'REMOVE') for (const pod of message.pods) send({ type: 'mirror.unwanted', pod });
  else for (const pod of message.pods) send({ type: 'mirror.wanted', pod });
}
