/** A recorder with turns made by hand, to test what its projections derive from the kernel's records. */
import type { Registry } from 'prom-client';
import { familiesOf } from '../../../src/actors/server/metrics/instruments.ts';
import { Recorder } from '../../../src/actors/server/metrics/recorder.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';

/** Gives turns to the recorder, each with its time; `contexts` has the contexts of actors by address. */
export function recording() {
  const recorder = new Recorder({ journalBytes: () => 0 });
  const contexts: Record<string, unknown> = {};
  let nowMs = 0;
  const kernel = {
    get now() {
      return nowMs;
    },
    snapshotOf: (address: string) => (contexts[address] ? { context: contexts[address] } : undefined),
    queueLength: 7,
  } as unknown as Kernel;
  /** Names and addresses of requests, which the kernel repeats in the records of their results. */
  const requests = new Map<unknown, object>();
  const complete = (record: Readonly<Record<string, unknown>>): object => {
    if (record['k'] === 'effect') requests.set(record['id'], { name: record['name'], at: record['at'] });
    return record['k'] === 'result' ? { ...requests.get(record['id']), ...record } : record;
  };
  const turn = (atMs: number, ...records: object[]) => {
    nowMs = atMs;
    const completed = [...records.map((record) => complete({ ...record })), { k: 'end' }];
    recorder.onTurn(completed as unknown as KernelRecord[], kernel, 0.2);
  };
  const value = async (name: string, labels: Record<string, string> = {}, suffix = '') => {
    const family = await recorder.registry.getSingleMetric(name)?.get();
    const samples = (family?.values ?? []) as { value: number; labels: Record<string, unknown>; metricName?: string }[];
    return samples.find(
      (sample) =>
        (sample.metricName ?? name) === `${name}${suffix}` &&
        Object.entries(labels).every(([key, text]) => String(sample.labels[key]) === text),
    )?.value;
  };
  return { contexts, turn, value, recorder };
}

export const sent = (to: string, event: object) => ({ k: 'message', from: 'x', to, event });
export const asked = (id: number, name: string, at: string, input: object = {}) => ({
  k: 'effect',
  id,
  name,
  at,
  class: 'query',
  input,
});
export const answered = (id: number, output: unknown = null) => ({ k: 'result', id, output });

/** Reads single numbers of a registry, as they are served. */
export const reading =
  (registry: Registry) =>
  async (name: string, labels: Readonly<Record<string, string>> = {}, suffix?: string): Promise<number | undefined> => {
    const family = (await familiesOf(registry)).find((each) => each.name === name);
    const isIt = (sample: Readonly<Record<string, string>>) =>
      Object.entries(labels).every(([key, value]) => sample[key] === value);
    return family?.samples.find((each) => each.suffix === suffix && isIt(each.labels))?.value;
  };
