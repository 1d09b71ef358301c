/** Says which images the runtime has, as often as that changes: the Node's status lists them. */
import type { PortCall } from '../../kernel/operation.ts';
import type { Image } from '../../machines/api/cri.ts';
import type { WatchImagesItem } from '../../machines/operations/cri.ts';

/**
 * Lists every `periodMs` until the call is aborted. A list that fails changes nothing: the runtime's own state is told
 * elsewhere, and the next list makes it right.
 */
export async function watchImages(
  call: Pick<PortCall<{ periodMs: number }, WatchImagesItem>, 'input' | 'signal' | 'emit'>,
  list: () => Promise<readonly Image[]>,
): Promise<null> {
  let last = '';
  while (!call.signal.aborted) {
    const images = await list().catch(() => null);
    const text = images === null ? last : JSON.stringify(images);
    if (images !== null && text !== last && !call.signal.aborted) call.emit({ type: 'images.changed', images });
    last = text;
    await pause(call.input.periodMs, call.signal);
  }
  return null;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
