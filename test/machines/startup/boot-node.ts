/**
 * The real supervisor in the real kernel, on a scripted machine: every operation of the start has an answer that a test
 * may replace, and {@link PodsWorld} answers everything about pods. Time is virtual.
 */
import type { EffectResult } from '../../../src/kernel/effects.ts';
import type { JsonEvent, PlainError } from '../../../src/kernel/json.ts';
import { Kernel, type KernelOptions } from '../../../src/kernel/kernel.ts';
import type { EffectRecord, KernelRecord, LogRecord, StateRecord } from '../../../src/kernel/records.ts';
import { type ReplayReport, replay } from '../../../src/kernel/replay.ts';
import type { Operations } from '../../../src/machines/model/operations/index.ts';
import type { KubeletInput, KubeletMachineOutput } from '../../../src/machines/startup/context/types.ts';
import { kubeletMachine } from '../../../src/machines/startup/kubelet.ts';
import { type Answers, HEALTHY, MachineWorld, runtimeCondition } from '../../../src/simulation/world/machine-world.ts';
import { header, MemorySink } from '../../kernel/support.ts';

export {
  type Answers,
  document,
  FIRST_WORDS,
  GROUPS,
  HEALTHY,
  MACHINE_INFO,
  ok,
  RUNTIME_READY,
} from '../../../src/simulation/world/machine-world.ts';

import { NEWEST_BEHAVIOR } from '../../../src/machines/model/settings/behaviors.ts';

export const fail = (message: string, code?: string): EffectResult => ({
  error: { name: 'Error', message, retriable: false, ...(code ? { code } : {}) },
});

export const RUNTIME_NOT_READY: JsonEvent = {
  type: 'runtime.statusChanged',
  conditions: [runtimeCondition('RuntimeReady', false, 'Stopped', 'gone'), runtimeCondition('NetworkReady', true)],
  handlers: [],
  features: null,
};

export interface BootOptions {
  readonly argv?: readonly string[];
  readonly version?: string;
  readonly answers?: Answers;
  readonly runOnce?: { readonly retries: number };
  /** Absent: all changed decisions. */
  readonly behavior?: number;
  /** No stream of the start emits on its own. */
  readonly isQuiet?: boolean;
  readonly onTurn?: NonNullable<KernelOptions['onTurn']>;
}

export const ARGV = ['--pod-manifest-path=/etc/kubernetes/manifests', '--fail-swap-on=true'];

export class BootNode {
  readonly sink = new MemorySink();
  readonly world: MachineWorld;
  readonly kernel: Kernel;
  ended: KubeletMachineOutput | { error: PlainError } | null = null;

  constructor({
    argv = ARGV,
    version = 'v1.36.2+statelet.test',
    answers = {},
    isQuiet = false,
    onTurn,
    runOnce,
    behavior = NEWEST_BEHAVIOR,
  }: BootOptions = {}) {
    this.world = new MachineWorld({ ...HEALTHY, ...answers }, { isQuiet });
    const input: KubeletInput = {
      argv,
      dataDir: null,
      version,
      behavior,
      journalDir: '/journal',
      ...(runOnce ? { runOnce } : {}),
    };
    const kernelHeader: KernelOptions['header'] = { ...header(), input };
    this.kernel = new Kernel({
      machine: kubeletMachine,
      header: kernelHeader,
      sink: this.sink,
      performer: this.world,
      time: this.world.time,
      ...(onTurn ? { onTurn } : {}),
      onStopped: (end) => void (this.ended = 'error' in end ? end : (end.output as BootNode['ended'])),
    });
  }

  boot(): this {
    this.kernel.boot();
    return this;
  }

  run(ms: number): this {
    this.world.time.advance(ms);
    return this;
  }

  /** SIGTERM or another input from the process. */
  send(event: JsonEvent, to = 'kubelet'): this {
    this.kernel.dispatch(to, event, 'test');
    return this;
  }

  /** The state value of an actor, by default the supervisor; `undefined` if there is no such actor. */
  state(address = 'kubelet'): unknown {
    return (this.kernel.snapshotOf(address) as { value: unknown } | undefined)?.value;
  }

  get records(): readonly KernelRecord[] {
    return this.sink.records;
  }

  effects(name?: keyof Operations): EffectRecord[] {
    return this.records.filter((record) => record.k === 'effect').filter((record) => !name || record.name === name);
  }

  lines(level?: LogRecord['level']): LogRecord[] {
    return this.records.filter((record) => record.k === 'log').filter((record) => !level || record.level === level);
  }

  crashes(): StateRecord[] {
    return this.records.filter((record) => record.k === 'state').filter((record) => record.status === 'error');
  }

  replay(): ReplayReport {
    return replay({ machine: kubeletMachine, records: this.sink.records });
  }
}
