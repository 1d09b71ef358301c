/**
 * The server thread: all code that reads external input runs here, and may fail here.
 *
 * Owns the ports and local sockets that the main thread opens, until it closes them or this thread ends. Keeps no state
 * that a new thread would need, and no secret except the key of the serving certificate.
 */
import type { JsonEvent } from '../../../kernel/json.ts';
import type { LocalSocket, ServedPort } from '../../../machines/model/operations/server.ts';
import { aborted } from '../../pause.ts';
import { healthzPort } from '../endpoints/health.ts';
import { type ServerOptions, serveLocal, servePort } from '../node-port.ts';
import { JournalFiles } from '../visualizer/journal-files.ts';
import type { PageInput } from '../visualizer/served-page.ts';
import { Visualizer } from '../visualizer/visualizer.ts';
import { Channel, type MessageEnd, type ReceivedCall } from './channel.ts';
import { type Ask, asks, type ThreadFacts } from './questions.ts';
import { remoteFeed, remoteNode } from './remote.ts';

/** The arguments of a service, which runs until the signal. */
interface Service<Input> {
  readonly input: Input;
  readonly signal: AbortSignal;
  readonly emit: (item: JsonEvent) => void;
}

/** Sources that services read. */
interface Parts {
  readonly ask: Ask;
  readonly node: ServerOptions;
}

async function servePage({ input, signal, emit }: Service<PageInput>, { ask }: Parts): Promise<null> {
  const { journal, ...page } = input;
  const files = journal === null ? {} : { journal: new JournalFiles(journal) };
  const served = new Visualizer({ ...page, feed: remoteFeed(ask), ...files });
  const { href, port } = await served.listen();
  emit({ type: 'page.listening', href, port: Number(port) });
  await aborted(signal);
  await served.close();
  return null;
}

/** The services that the main thread can open, by name. */
const SERVICES = {
  port: (call: Service<ServedPort>, { node }: Parts) => servePort(call, node),
  localSocket: (call: Service<LocalSocket>, { node }: Parts) => serveLocal(call, node),
  healthz: (call: Service<{ readonly address: string; readonly port: number }>, { node }: Parts) =>
    healthzPort(call, { ping: node.view.checks['ping']! }),
  page: servePage,
};

export type ServiceName = keyof typeof SERVICES;

/** Starts to answer requests at `end`. */
export function serve(end: MessageEnd, facts: ThreadFacts): void {
  const opens = Object.entries(SERVICES).map(([name, open]) => {
    const opened = (input: never, { signal, emit }: ReceivedCall) =>
      open({ input, signal, emit: (item) => void emit(item) }, parts);
    return [name, opened] as const;
  });
  const channel: Channel = new Channel(end, { ...Object.fromEntries(opens), alive: () => null });
  const ask = asks(channel);
  const parts: Parts = { ask, node: remoteNode(ask, facts) };
  // Loaded ahead to speed up the first request.
  void import('fastify');
}
