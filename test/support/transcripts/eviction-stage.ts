/** The stage of stories about eviction: the machine alone, on a node with memory and pods that the story sets. */

import type { MessageRecord } from '../../../src/kernel/records.ts';
import { evictionMachine } from '../../../src/machines/charts/node/eviction/eviction.ts';
import type { NodePod } from '../../../src/machines/model/eviction/ranking.ts';
import type { EvictionThreshold, Observations, PodUse } from '../../../src/machines/model/operations/stats.ts';
import { type Answers, ok, runUnder } from '../answering-world.ts';
import { settings } from '../pods-node.ts';
import { Decisions } from './decisions.ts';
import { type Command, milliseconds, type Stage } from './script.ts';

const MEBIBYTE = 1024 * 1024;
const CAPACITY_MEBIBYTES = 16_384;
const NEIGHBOURS = ['pods', 'nodeStatus', 'allocation', 'eventRecorder', 'containerGC', 'imageGC'];
const SUBJECT = 'parent/subject';

export class EvictionStage implements Stage {
  private readonly thresholds: EvictionThreshold[] = [];
  private readonly used = new Map<string, number>();
  private available = CAPACITY_MEBIBYTES;
  private run: ReturnType<typeof runUnder> | null = null;
  private readonly text = new Decisions({
    nameOf: (address) => (address === SUBJECT ? 'eviction' : null),
    messageOf: textOfMessage,
  });

  perform({ name, argument }: Command): void {
    const act = this.commands[name];
    if (!act) throw new Error(`no command "${name}"; there are ${Object.keys(this.commands).join(', ')}`);
    act(argument);
    if (this.run) this.node.time.advanceTo(this.node.time.now());
  }

  decisions(): readonly string[] {
    return this.text.next(this.node.records());
  }

  private get node(): ReturnType<typeof runUnder> {
    if (!this.run) throw new Error('the story has to "boot" first');
    return this.run;
  }

  private readonly commands: Readonly<Record<string, (argument: string) => void>> = {
    threshold: (argument) => void this.thresholds.push(thresholdOf(argument)),
    boot: () => void (this.run = this.boot()),
    pod: (argument) => this.put(argument),
    gone: (uid) => {
      this.used.delete(uid);
      this.node.send({ type: 'node.podChanged', uid, pod: null, isReclaimed: true });
    },
    available: (mebibytes) => {
      this.available = Number(mebibytes);
      this.node.emit('stats.watchSignals', { type: 'signals.changed', observations: this.observations() });
    },
    run: (time) => this.node.time.advanceTo(this.node.time.now() + milliseconds(time)),
  };

  private boot(): ReturnType<typeof runUnder> {
    const answers: Answers = {
      'stats.diskLayout': ok({ dedicatedImageFs: false, splitContainerFs: false }),
      'stats.watchSignals': 'stream',
      'stats.watchStorage': 'stream',
      'stats.observe': () => ok({ observations: this.observations(), pods: [...this.used].map(useOf) }),
    };
    const eviction = {
      thresholds: this.thresholds,
      transitionMs: 300_000,
      maxPodGraceSeconds: 7,
      localStorage: true,
    };
    return runUnder(evictionMachine, { ...settings, eviction }, answers, NEIGHBOURS);
  }

  private observations(): Observations {
    const available = String(this.available * MEBIBYTE);
    return { 'memory.available': { available, capacity: String(CAPACITY_MEBIBYTES * MEBIBYTE) } };
  }

  /** `NAME uses 300 requests 64 priority 10`, in mebibytes. */
  private put(argument: string): void {
    const [uid = '', ...words] = argument.split(' ');
    const value = (key: string): number => (words.includes(key) ? Number(words[words.indexOf(key) + 1]) : 0);
    this.used.set(uid, value('uses'));
    this.node.send({ type: 'node.podChanged', uid, pod: podOf(uid, value('requests'), value('priority')) });
  }
}

/** `memory.available below 100Mi`, `memory.available below 1Gi for 60s`. */
function thresholdOf(text: string): EvictionThreshold {
  const [, signal, quantity, grace] = /^(\S+) below (\S+?)(?: for (\S+))?$/.exec(text) ?? [];
  if (signal === undefined || quantity === undefined) throw new Error(`"${text}" is no threshold`);
  const graceMs = grace === undefined ? 0 : milliseconds(grace);
  return { signal: signal as 'memory.available', value: { quantity }, graceMs, minReclaim: null };
}

const podOf = (name: string, requests: number, priority: number): NodePod => ({
  name,
  namespace: 'default',
  priority,
  isCritical: false,
  graceSeconds: 30,
  requests: { memory: String(requests * MEBIBYTE), 'ephemeral-storage': '0' },
  podMemoryRequest: null,
  containerRequests: { app: { memory: `${requests}Mi` } },
  localVolumes: [],
  storage: null,
});

const useOf = ([uid, mebibytes]: [string, number]): PodUse => {
  const workingSetBytes = String(mebibytes * MEBIBYTE);
  const app = { name: 'app', workingSetBytes, rootfs: null, logs: null };
  return { uid, workingSetBytes, processes: '1', containers: [app], volumes: {} };
};

/** The messages of eviction to its siblings. */
function textOfMessage({ from, to, event }: MessageRecord): string | null {
  if (from !== SUBJECT || event.type.startsWith('xstate.')) return null;
  const { type, ...fields } = event as unknown as { readonly type: string } & Record<string, unknown>;
  return `eviction sends ${type} to ${to.slice('parent/'.length)}: ${JSON.stringify(fields)}`;
}
