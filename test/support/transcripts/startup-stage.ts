/**
 * The stage of stories about startup: the whole kubelet on a machine where everything works unless the story says
 * otherwise.
 */
import { parse } from 'yaml';
import type { EffectResult } from '../../../src/kernel/effects.ts';
import type { Json } from '../../../src/kernel/json.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';
import type { Operations } from '../../../src/machines/model/operations/index.ts';
import {
  ARGV,
  BootNode,
  document,
  HEALTHY,
  ok,
  RUNTIME_NOT_READY,
  RUNTIME_READY,
} from '../../machines/startup/boot-node.ts';
import { Decisions } from './decisions.ts';
import { type Command, milliseconds, type Stage } from './script.ts';

type Answer = (input: never, nth: number) => EffectResult | 'stream' | 'hangs';

/** The actors of the story, by address. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ['kubelet', 'kubelet'],
  ...['runtimeService', 'containerManager', 'healthz'].map((id): [string, string] => [`kubelet/${id}`, id]),
]);

/** Longer than a start on a machine without faults. */
const STARTED_MS = 10_000;

export class StartupStage implements Stage {
  private readonly argv = [...ARGV];
  private readonly answers = new Map<string, Answer>();
  private node: BootNode | null = null;
  private hasEnded = false;
  private readonly text = new Decisions({ nameOf: (address) => NAMES.get(address) ?? null });

  perform({ name, argument, details }: Command): void {
    const act = this.commands[name];
    if (!act) throw new Error(`no command "${name}"; there are ${Object.keys(this.commands).join(', ')}`);
    act(argument, details);
  }

  get records(): readonly KernelRecord[] {
    return this.booted.records;
  }

  decisions(): readonly string[] {
    const lines = this.text.next(this.booted.records);
    const { ended } = this.booted;
    if (!ended || this.hasEnded) return lines;
    this.hasEnded = true;
    return [...lines, 'error' in ended ? `the kubelet crashes: ${ended.error.message}` : `exit code ${ended.exitCode}`];
  }

  private get booted(): BootNode {
    if (!this.node) throw new Error('the story has to "boot" first');
    return this.node;
  }

  private readonly commands: Readonly<Record<string, (argument: string, details: string) => void>> = {
    flag: (flag) => void this.argv.push(flag),
    configuration: (_, details) => {
      this.argv.push('--config=/etc/kubelet.yaml');
      this.answers.set('host.readConfiguration', () => ok(document(parse(details) as Record<string, Json>)));
    },
    answer: (name, details) => void this.answers.set(name, answerOf(name, details.trim())),
    boot: () => {
      this.node = new BootNode({ argv: this.argv, answers: Object.fromEntries(this.answers) }).boot();
    },
    started: () => {
      this.node = new BootNode().boot().run(STARTED_MS);
      this.text.next(this.node.records);
    },
    run: (time) => void this.booted.run(milliseconds(time)),
    runtime: (state) =>
      this.booted.world.emit('runtime.watchStatus', state === 'ready' ? RUNTIME_READY : RUNTIME_NOT_READY),
    signal: (signal) => void this.booted.send({ type: 'signal.received', signal }),
  };
}

/** `fails: MESSAGE`, `fails 3 times: MESSAGE`, `hangs`. */
function answerOf(name: string, text: string): Answer {
  if (text === 'hangs') return () => 'hangs';
  const [, times, message] = /^fails(?: (\d+) times)?: (.*)$/.exec(text) ?? [];
  if (message === undefined) throw new Error(`no answer "${text}"`);
  const healthy = HEALTHY[name as keyof Operations];
  return (input, nth) => {
    if (times === undefined || nth < Number(times)) return { error: { name: 'Error', message, retriable: true } };
    return typeof healthy === 'function' ? healthy(input, nth) : healthy!;
  };
}
