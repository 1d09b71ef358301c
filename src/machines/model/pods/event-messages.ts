/** Events that any actor sends to `eventRecorder`. */
import type { ObjectReference } from '../api/pod.ts';
import type { EventText } from '../reasons/reasons.ts';

export interface EventRecorded {
  readonly type: 'event.recorded';
  readonly ref: ObjectReference;
  readonly eventType: EventText['type'];
  readonly reason: string;
  readonly message: string;
  /** Annotations of the Event object, for programs. */
  readonly annotations?: Readonly<Record<string, string>>;
}

export const eventRecorded = (
  ref: ObjectReference,
  text: EventText,
  annotations: Readonly<Record<string, string>> = {},
): EventRecorded => ({
  type: 'event.recorded',
  ref,
  eventType: text.type,
  reason: text.reason,
  message: text.message,
  ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
});
