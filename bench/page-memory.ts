/** The used heaps of a page and of its worker, with the bytes of their buffers. */
import type { Page } from 'playwright-core';
import { askWorker, workersOf } from '../test/support/page-worker.ts';

interface Heap {
  readonly usedSize: number;
  readonly embedderHeapUsedSize?: number;
  readonly backingStorageSize?: number;
}

export interface PageMemory {
  readonly pageMb: number;
  readonly workerMb: number;
}

export async function memoryOf(page: Page): Promise<PageMemory> {
  const session = await page.context().newCDPSession(page);
  const megabytes = async (
    ask: (method: 'HeapProfiler.collectGarbage' | 'Runtime.getHeapUsage') => Promise<unknown>,
  ) => {
    await ask('HeapProfiler.collectGarbage');
    const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = (await ask('Runtime.getHeapUsage')) as Heap;
    return (usedSize + embedderHeapUsedSize + backingStorageSize) / 1_048_576;
  };
  const pageMb = await megabytes((method) => session.send(method));
  let workerMb = 0;
  for (const worker of await workersOf(session))
    workerMb += await megabytes((method) => askWorker(session, worker, method));
  await session.detach();
  return { pageMb, workerMb };
}
