/** How an answer is sent: correctly, or with a fault. */
import type { Fault } from './faults.ts';
import { destroy, type Response, write } from './watches.ts';

export interface Answer {
  readonly code: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export function send(response: Response, { code, body, headers = {} }: Answer, fault?: Fault): void {
  if (response.headersSent || response.destroyed) return;
  const text = `${JSON.stringify(body)}\n`;
  for (const [name, value] of Object.entries({ 'content-type': 'application/json', ...headers })) {
    response.setHeader(name, value);
  }
  response.statusCode = code;
  switch (fault?.kind) {
    case 'loseAnswer':
      return destroy(response);
    case 'halfJson':
      return end(response, text.slice(0, text.length / 2));
    case 'brokenJson':
      write(response, text.slice(0, text.length / 2));
      return void setTimeout(() => destroy(response), BREAK_AFTER_MS);
    case 'slow':
      return trickle(response, text, fault.bytes, fault.everyMs);
    default:
      return end(response, text);
  }
}

/** Long enough for the first half to reach the client before the connection breaks. */
const BREAK_AFTER_MS = 20;

const end = (response: Response, text: string): void => void response.end(text);

function trickle(response: Response, text: string, bytes: number, everyMs: number): void {
  let at = 0;
  const timer = setInterval(() => {
    write(response, text.slice(at, at + bytes));
    at += bytes;
    if (at < text.length) return;
    clearInterval(timer);
    response.end();
  }, everyMs);
  response.once('close', () => clearInterval(timer));
}
