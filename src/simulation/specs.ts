/** Pods of a simulation, and what their processes do. Also the random choices of a run. */

import { createHash } from 'node:crypto';
import { SeededRandom } from '../kernel/purity.ts';
import type { Program } from './world/runtime-model.ts';

const CPUS = ['100m', '200m', '400m', '700m', '1'];
const MEMORIES = ['64Mi', '128Mi', '256Mi'];
const HOOK = { exec: { command: ['hook'] } };
const hook = (chance: Chance) => (chance.is(0.5) ? HOOK : { sleep: { seconds: 2 } });
export const CONFIG_MAPS = ['one', 'two', 'late'];

type Fields = Record<string, unknown>;

export function resources(chance: Chance): Fields {
  if (chance.is(0.4)) return {};
  const requests = { cpu: chance.pick(CPUS), memory: chance.pick(MEMORIES) };
  return chance.is(0.5) ? { requests } : { requests, limits: requests };
}

function probes(chance: Chance): Fields {
  const probe = () => ({
    exec: { command: [chance.pick(['well', 'sick'])] },
    periodSeconds: 1 + chance.below(5),
    failureThreshold: 1 + chance.below(2),
  });
  return {
    ...(chance.is(0.2) ? { livenessProbe: probe() } : {}),
    ...(chance.is(0.3) ? { readinessProbe: probe() } : {}),
    ...(chance.is(0.15) ? { startupProbe: { ...probe(), failureThreshold: 3 } } : {}),
  };
}

function container(
  chance: Chance,
  name: string,
  { never, grace = 30, ...more }: Fields & { grace?: number } = {},
): Fields {
  const restartPolicy = never ? 'NotRequired' : chance.pick(['NotRequired', 'RestartContainer']);
  return {
    name,
    image: chance.is(0.1) ? 'late:1' : 'app:1',
    imagePullPolicy: chance.is(0.2) ? 'Always' : 'IfNotPresent',
    resources: resources(chance),
    ...(chance.is(0.3) ? { resizePolicy: [{ resourceName: 'cpu', restartPolicy }] } : {}),
    ...(chance.is(0.2) ? { lifecycle: { preStop: grace > 2 ? hook(chance) : HOOK } } : {}),
    ...more,
  };
}

/** A container that runs beside others. */
function lasting(chance: Chance, name: string, more: Fields = {}): Fields {
  const start = chance.is(0.1) ? { lifecycle: { postStart: HOOK } } : {};
  return container(chance, name, { ...probes(chance), ...start, ...more });
}

export function podSpec(chance: Chance, isStatic: boolean): Fields {
  const restartPolicy = chance.pick(['Always', 'Always', 'OnFailure', 'Never']);
  const grace = chance.pick([0, 1, 5, 30]);
  const never = restartPolicy === 'Never';
  const init = Array.from({ length: chance.is(0.4) ? 1 + chance.below(3) : 0 }, (_, i) => {
    if (chance.is(0.4)) return lasting(chance, `side${i}`, { never, grace, restartPolicy: 'Always' });
    return container(chance, `init${i}`, { never, lifecycle: undefined });
  });
  const names = chance.is(0.3) ? ['app', 'job'] : [chance.pick(['app', 'app', 'job'])];
  const volumes = [
    ...(chance.is(0.2) ? [{ name: 'data', emptyDir: {} }] : []),
    ...(chance.is(0.2) && !isStatic ? [{ name: 'config', configMap: { name: chance.pick(CONFIG_MAPS) } }] : []),
  ];
  return {
    restartPolicy,
    terminationGracePeriodSeconds: grace,
    ...(init.length > 0 ? { initContainers: init } : {}),
    containers: names.map((name) => lasting(chance, name, { never, grace })),
    ...(volumes.length > 0 ? { volumes } : {}),
    ...(chance.is(0.1) ? { activeDeadlineSeconds: 5 + chance.below(60) } : {}),
    ...(chance.is(0.05) && !isStatic ? { priority: 2_000_000_000 } : {}),
  };
}

/** Without disturbances every program ends with success, and one that is to run for ever does so. */
export function program(chance: Chance, name: string, isDisturbed: boolean, isForEver: boolean): Program {
  const stopsMs = chance.pick([0, 0, 500, 4_000, Number.POSITIVE_INFINITY]);
  const stopExitCode = chance.pick([0, 143]);
  if (name.startsWith('init')) {
    const exitCode = isDisturbed && chance.is(0.2) ? 1 : 0;
    return { runsMs: chance.ms(8_000), exitCode, stopsMs };
  }
  if (isDisturbed && chance.is(0.03)) return { startError: 'cannot be started' };
  if (isDisturbed && chance.is(name === 'job' ? 0.7 : 0.15)) {
    return { runsMs: chance.ms(60_000), exitCode: chance.below(2), stopsMs, stopExitCode };
  }
  if (name === 'job' && !isForEver) return { runsMs: chance.ms(5_000), stopsMs };
  return { stopsMs, stopExitCode };
}

/**
 * The random choices of a simulation: the same seed and the same key give the same choices, independent of other
 * choices.
 */
export class Chance {
  private readonly random: SeededRandom;

  constructor(...words: readonly (string | number)[]) {
    this.random = new SeededRandom(createHash('md5').update(words.join(' ')).digest().readUInt32LE());
  }

  is(share: number): boolean {
    return this.random.next() < share;
  }

  below(limit: number): number {
    return Math.floor(this.random.next() * limit);
  }

  /** Small values are more likely. */
  ms(max: number): number {
    return Math.floor(this.random.next() ** 3 * max);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }
}
