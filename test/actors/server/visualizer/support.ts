/** A visualizer on a real socket, showing the boss and its workers; and a reader of server-sent events. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drawMachines } from '../../../../scripts/diagrams/draw.ts';
import { KernelFeed } from '../../../../src/actors/server/visualizer/feed.ts';
import type { HelloMessage, TurnMessage } from '../../../../src/actors/server/visualizer/protocol.ts';
import { Visualizer } from '../../../../src/actors/server/visualizer/visualizer.ts';
import type { KernelOptions } from '../../../../src/kernel/kernel.ts';
import { bootBoss, bossMachine, HandTime } from '../../../kernel/support.ts';

/** The token that every visualizer of these tests requires. */
export const TOKEN = 'token-of-the-tests';

/** The global `fetch`, with the token. */
export const fetch = (
  url: URL,
  { headers, ...init }: Omit<RequestInit, 'headers'> & { readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Response> => globalThis.fetch(url, { ...init, headers: { authorization: `Bearer ${TOKEN}`, ...headers } });

/** Boots `machine` with its charts drawn and its visualizer listening; port 0 takes any. */
export async function watched(overrides: Partial<KernelOptions> = {}, port = 0) {
  const diagramsDir = mkdtempSync(join(tmpdir(), 'statelet-charts-'));
  const machine = overrides.machine ?? bossMachine;
  for (const [name, chart] of await drawMachines(machine)) writeFileSync(join(diagramsDir, name), chart);
  const clock = new HandTime();
  const feed = new KernelFeed({ now: () => clock.now() });
  const visualizer = new Visualizer({ port, token: TOKEN, feed, diagramsDir });
  const origin = await visualizer.listen();
  const boot = bootBoss({ machine, onTurn: feed.onTurn, time: clock, ...overrides });
  const ask = async <Answer>(path: string): Promise<Answer> => {
    const response = await fetch(new URL(path, origin));
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Answer;
  };
  const close = async () => {
    await visualizer.close();
    rmSync(diagramsDir, { recursive: true });
  };
  return { ...boot, time: clock, visualizer, origin, ask, close };
}

export type Heard = { type: 'hello'; data: HelloMessage } | { type: 'turn'; id: string; data: TurnMessage };

/** Reads a stream of server-sent events one by one. */
export async function listen(origin: URL, headers: Record<string, string> = {}, path = '/events') {
  const abort = new AbortController();
  const response = await fetch(new URL(path, origin), { headers, signal: abort.signal });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const next = async (): Promise<Heard> => {
    for (let end = text.indexOf('\n\n'); ; end = text.indexOf('\n\n')) {
      if (end !== -1) {
        const block = text.slice(0, end);
        text = text.slice(end + 2);
        return parse(block);
      }
      const { done, value } = await reader.read();
      if (done) throw new Error('the stream has ended');
      text += value;
    }
  };
  return { next, type: response.headers.get('content-type'), close: () => abort.abort() };
}

function parse(block: string): Heard {
  const fields = Object.fromEntries(
    block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
  );
  return { type: fields['event'], id: fields['id'], data: JSON.parse(fields['data'] ?? 'null') } as Heard;
}
