/**
 * Runs code in another process or its worker thread, through the inspector that Node opens on SIGUSR1, for faults that
 * no interface of the program can cause.
 */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { WebSocket } from 'ws';

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly sessionId?: string; readonly message?: string };
}

export class InspectedWorker {
  readonly #socket: WebSocket;
  #session: string | undefined;
  #lastId = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer) => this.#hear(JSON.parse(String(data)) as Message));
  }

  /** `log` returns the output of the process, in which Node reports the address of its inspector. */
  static async of(pid: number, log: () => string): Promise<InspectedWorker> {
    process.kill(pid, 'SIGUSR1');
    for (;;) {
      const url = /Debugger listening on (ws:\S+)/.exec(log())?.[1];
      if (url !== undefined) return await InspectedWorker.#connected(url);
      await pause(20);
    }
  }

  static async #connected(url: string): Promise<InspectedWorker> {
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    const inspected = new InspectedWorker(socket);
    inspected.#say('NodeWorker.enable', { waitForDebuggerOnStart: false });
    return inspected;
  }

  /** Evaluates in the running worker, without waiting for the result. Waits for a worker. */
  async evaluate(expression: string): Promise<void> {
    while (this.#session === undefined) await pause(5);
    const message = JSON.stringify({ id: ++this.#lastId, method: 'Runtime.evaluate', params: { expression } });
    this.#say('NodeWorker.sendMessageToWorker', { sessionId: this.#session, message });
  }

  /** The same on the main thread. */
  evaluateInMain(expression: string): void {
    this.#say('Runtime.evaluate', { expression });
  }

  /** Disconnects, because a process that ends waits until its inspector is disconnected. */
  async close(): Promise<void> {
    if (this.#socket.readyState === WebSocket.CLOSED) return;
    const closed = once(this.#socket, 'close');
    this.#socket.close();
    await closed;
  }

  #say(method: string, params: object): void {
    this.#socket.send(JSON.stringify({ id: ++this.#lastId, method, params }));
  }

  #hear({ method, params }: Message): void {
    if (method === 'NodeWorker.attachedToWorker') this.#session = params?.sessionId;
    if (method === 'NodeWorker.detachedFromWorker') this.#session = undefined;
  }
}
