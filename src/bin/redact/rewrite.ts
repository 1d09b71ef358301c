/**
 * Makes a journal anew without its private texts: today's machines take the redacted inputs, and what they decide is
 * written as a node writes it, so that checksums, digests and the chain are right.
 *
 * Invariant: a log that this build does not replay is refused before anything is written, because of such a log it
 * cannot be said whether the redacted one decides the same.
 */
import { type Journal, JournalError, type JournalWriter } from '../../kernel/journal/index.ts';
import { Kernel } from '../../kernel/kernel.ts';
import type { EffectRecord, HeaderRecord, InputRecord, JournalRecord, KernelRecord } from '../../kernel/records.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';
import type { Redactor } from './redactor.ts';

/** After so many turns the writer gets to its disk. */
const TURNS_AT_ONCE = 64;

export async function rewrite(journal: Journal, redactor: Redactor, sink: JournalWriter): Promise<void> {
  let kernel: Kernel | undefined;
  let made: readonly KernelRecord[] = [];
  let logged: JournalRecord[] = [];
  let turns = 0;
  for (const record of journal.records) {
    logged.push(record);
    if (record.k !== 'end') continue;
    const [first] = logged;
    if (first?.k === 'header') kernel = begin(redactor.redactInput(first), sink, (records) => (made = records));
    else if (first && isInput(first)) feed(kernel!, redactor.redactInput(first));
    else throw new JournalError('unusable', { file: sink.directory }, 'a turn of it does not begin with an input');
    learnDerived(redactor, logged, made);
    logged = [];
    if (++turns % TURNS_AT_ONCE === 0) await new Promise((done) => setImmediate(done));
  }
  await sink.close();
}

const isInput = ({ k }: JournalRecord): boolean => k === 'in' || k === 'timer' || k === 'result';

function begin(header: HeaderRecord, sink: JournalWriter, onTurn: (records: readonly KernelRecord[]) => void): Kernel {
  const { n: _n, k: _k, t, ...rest } = header;
  const own = { ...rest, incarnation: sink.incarnation };
  return new Kernel({ machine: kubeletMachine, header: own, sink, onTurn, onStopped: () => {} }).boot(t);
}

function feed(kernel: Kernel, record: JournalRecord): void {
  const { n: _n, ...draft } = record as InputRecord;
  kernel.input(draft);
}

function learnDerived(redactor: Redactor, logged: readonly JournalRecord[], made: readonly KernelRecord[]): void {
  const now = requestsOf(made);
  for (const [at, request] of requestsOf(logged).entries()) redactor.learnDerived(request.input, now[at]?.input);
}

const requestsOf = (records: readonly JournalRecord[]): EffectRecord[] =>
  records.filter(({ k }) => k === 'effect') as EffectRecord[];
