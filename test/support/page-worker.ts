/** The worker of a page, controlled by the protocol of the developer tools through its page. */
import type { CDPSession, Page } from 'playwright-core';

/** The sessions of a page's workers. */
export async function workersOf(session: CDPSession): Promise<string[]> {
  const found: string[] = [];
  session.on('Target.attachedToTarget', ({ sessionId, targetInfo }) => {
    if (targetInfo.type === 'worker') found.push(sessionId);
  });
  await session.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  return found;
}

let questions = 0;

export async function askWorker(session: CDPSession, sessionId: string, method: string): Promise<unknown> {
  const id = ++questions;
  const answer = new Promise((resolve) => {
    session.on('Target.receivedMessageFromTarget', (event) => {
      const reply = JSON.parse(event.message) as { readonly id: number; readonly result: unknown };
      if (event.sessionId === sessionId && reply.id === id) resolve(reply.result);
    });
  });
  await session.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify({ id, method }) });
  return answer;
}

/**
 * Stops the worker of a page at its next step; resolves with a function that continues it. A stopped worker reads
 * nothing.
 */
export async function stopWorker(page: Page): Promise<() => Promise<void>> {
  const session = await page.context().newCDPSession(page);
  const [worker] = await workersOf(session);
  if (worker === undefined) throw new Error('the page has no worker');
  await askWorker(session, worker, 'Debugger.enable');
  await askWorker(session, worker, 'Debugger.pause');
  return async () => {
    await askWorker(session, worker, 'Debugger.resume');
    await session.detach();
  };
}
