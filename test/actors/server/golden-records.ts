/** The records of the HTTP corpus, as `test/golden/http/README.md` describes them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const GOLDEN = join(import.meta.dirname, '../../golden/http');
export const golden = (file: string): string => readFileSync(join(GOLDEN, file), 'utf8');

export interface Recorded {
  readonly id: string;
  readonly group: string;
  readonly server: string;
  readonly request: {
    readonly method?: string;
    readonly path: string;
    readonly headers?: readonly string[];
    readonly body?: string;
    readonly raw?: string;
  };
  readonly credential: string;
  readonly status?: number;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string;
  readonly bodyTruncated?: boolean;
  readonly bodyBytes?: number | string;
  readonly bodyEncoding?: string;
  readonly raw?: string;
  readonly ended?: string;
  readonly error?: string;
  readonly note?: string;
  /** For a WebSocket, what the client sent after the handshake; numbers are pauses in seconds. */
  readonly sent?: readonly (number | { readonly op: FrameKind; readonly payload: string })[];
  /** For a WebSocket, what the client received. */
  readonly frames?: readonly RecordedFrame[];
}

export type FrameKind = 'text' | 'binary' | 'close' | 'ping' | 'pong';

/** `payload` is latin1, cut where `truncated`; `decoded` is the base64 after the digit of the channel. */
export interface RecordedFrame {
  readonly op: FrameKind;
  readonly payload?: string;
  readonly decoded?: string;
  readonly truncated?: boolean;
  readonly code?: number;
  readonly reason?: string;
}

export const recordings = (): Recorded[] =>
  golden('requests.ndjson')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Recorded);
