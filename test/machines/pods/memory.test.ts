import { describe, expect, test } from 'vitest';
import { memoryMachine } from '../../../src/machines/pods/memory.ts';
import { ok, runUnder } from '../../support/answering-world.ts';

const GRANT = { demand: {}, allocation: {} };

function memory() {
  const written: unknown[] = [];
  const world = runUnder(
    memoryMachine,
    { softStateFile: '/soft-state.json' },
    {
      'host.loadSoftState': ok({ containers: {}, probes: {} }),
      'host.saveSoftState': ({ state }: { state: { grants?: object } }) => {
        written.push(state.grants);
        return ok(null);
      },
    },
    ['pods', 'allocation'],
  );
  const allocated = (uid: string, held: object = {}) =>
    world.tell({ type: 'memory.allocated', uid, grant: { ...GRANT, ...held } });
  const pass = (ms: number) => world.time.advanceTo(world.time.now() + ms);
  return { world, written, allocated, pass };
}

describe('what pods were given', () => {
  test('is written after a moment, together', () => {
    const { written, allocated, pass } = memory();
    allocated('a');
    allocated('b');
    pass(900);
    expect(written).toEqual([]);
    pass(200);
    expect(written).toEqual([{ a: GRANT, b: GRANT }]);
  });

  test.each(['cpus', 'memory', 'devices'])('M5: is written at once when nobody else may have it: %s', (kind) => {
    const { world, written, allocated, pass } = memory();
    allocated('a');
    pass(100);
    allocated('b', { [kind]: {} });
    allocated('c', { [kind]: {} });
    pass(0);
    expect(written).toEqual([
      { a: GRANT, b: { ...GRANT, [kind]: {} } },
      { a: GRANT, b: { ...GRANT, [kind]: {} }, c: { ...GRANT, [kind]: {} } },
    ]);
    pass(5_000);
    expect(written).toHaveLength(2);
    expect(world.divergence()).toBeNull();
  });
});
