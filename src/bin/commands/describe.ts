/** `statelet describe pod NAME`: everything about one pod of this node, with the events that its journal has. */
import { dirname, join } from 'node:path';
import { JournalError } from '../../kernel/journal/errors.ts';
import { readJournal } from '../../kernel/journal/reader.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { describePod, type PodEvent } from '../local/describe-pod.ts';
import { askedFor, type LocalOptions, podNamed, pods, socketPath } from '../local/node-client.ts';
import { printable } from '../printable.ts';

/** @throws LocalError */
export async function describeCommand(
  resource: string,
  given: string | undefined,
  options: LocalOptions,
): Promise<string> {
  const name = askedFor(resource, given);
  const socket = await socketPath(options);
  const { namespace } = options;
  const found = name === undefined ? await pods(socket, namespace) : [await podNamed(socket, namespace, name)];
  const journal = join(dirname(socket), 'journal');
  const texts = found.map((pod) =>
    describePod(pod, eventsOf(journal, `${pod.metadata.namespace}/${pod.metadata.name}`), Date.now()),
  );
  return printable(texts.join('\n\n'));
}

/**
 * The events of an object since the start of the daemon, equal texts once; none if the journal is in another folder.
 */
function eventsOf(journal: string, object: string): PodEvent[] {
  const events = new Map<string, PodEvent>();
  for (const { record, atMs } of recordsOf(journal)) {
    if (record.k !== 'log' || record.text !== 'Event occurred' || record.fields?.['object'] !== object) continue;
    const { type, reason, message } = record.fields as Record<'type' | 'reason' | 'message', string>;
    const key = `${reason}\n${message}`;
    const at = new Date(atMs).toISOString();
    events.set(key, { type, reason, message, at, count: (events.get(key)?.count ?? 0) + 1 });
  }
  return [...events.values()];
}

type Timed = { readonly record: JournalRecord; readonly atMs: number };

/** Each record with the time of its turn. */
function recordsOf(journal: string): Timed[] {
  try {
    let atMs = 0;
    return Array.from(readJournal(journal).records, (record) => {
      if ('t' in record && typeof record.t === 'number') atMs = record.t;
      return { record, atMs };
    });
  } catch (thrown) {
    if (thrown instanceof JournalError) return [];
    throw thrown;
  }
}
