/**
 * The stream of container events, to all subscribers.
 *
 * Invariant: a listener that does not read uses bounded memory: beyond the limit its stream ends with an error and it
 * must list again.
 */
import { type ServerWritableStream, status } from '@grpc/grpc-js';
import type { ContainerEventResponse } from '../../machines/model/api/cri.ts';

export type EventStream = ServerWritableStream<unknown, ContainerEventResponse>;

/** Events queued for one slow listener; containerd's limit. */
const MAX_WAITING = 1000;
/** Listeners: the node agent, and a few observers. */
const MAX_LISTENERS = 64;

export class Events {
  readonly #streams = new Set<EventStream>();

  add(stream: EventStream): void {
    if (this.#streams.size >= MAX_LISTENERS) {
      fail(stream, `${MAX_LISTENERS} listeners already follow the container events`);
      return;
    }
    this.#streams.add(stream);
    stream.once('cancelled', () => this.#streams.delete(stream));
    stream.once('error', () => this.#streams.delete(stream));
    // Sends the headers now, so that the listener knows that it is connected before the first event.
    stream.sendMetadata(stream.metadata.clone());
  }

  send(event: ContainerEventResponse): void {
    for (const stream of this.#streams) {
      if (stream.writableLength < MAX_WAITING) {
        stream.write(event);
      } else {
        this.#streams.delete(stream);
        fail(stream, `${MAX_WAITING} container events wait unread: list again and listen anew`);
      }
    }
  }

  close(): void {
    for (const stream of this.#streams) stream.end();
    this.#streams.clear();
  }
}

function fail(stream: EventStream, details: string): void {
  stream.emit('error', { code: status.RESOURCE_EXHAUSTED, details });
}
