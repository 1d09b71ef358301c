/** How 0.2.0 chose CPUs where the kubelet and newer releases choose differently. */
import { expect, it } from 'vitest';
import { allocatableCpus, allocateCpus } from '../../../../src/machines/model/allocation/cpu-manager.ts';
import type { CpuManagerSettings } from '../../../../src/machines/model/settings/node-settings.ts';

/** Cores 0/4, 1/5, 2/6 and 3/7. */
const cpus = [0, 1, 2, 3, 4, 5, 6, 7].map((id) => ({ id, core: id % 4, socket: 0, numaNode: 0 }));
const NOW: CpuManagerSettings = { cpus, reserved: [0], wholeCores: false, isReservationStrict: false };
const RELEASED: CpuManagerSettings = { ...NOW, isAsReleased: true };

it('what an init container has had came first', () => {
  const given = (settings: CpuManagerSettings) =>
    allocateCpus(
      { settings, grants: [], progress: { cpus: { i: '4' }, reusable: [4] } },
      { container: 'c', isInit: false, cpus: 2 },
      null,
    );
  expect(given(RELEASED)).toMatchObject({ cpus: { c: '1,4' } });
  expect(given(NOW)).toMatchObject({ cpus: { c: '1,5' } });
});

it('no container had a sibling of a reserved CPU when it was to have whole cores', () => {
  expect(allocatableCpus({ ...RELEASED, wholeCores: true })).toEqual([1, 2, 3, 5, 6, 7]);
  expect(allocatableCpus({ ...NOW, wholeCores: true })).toEqual([1, 2, 3, 4, 5, 6, 7]);
});
