/**
 * How much longer than on a quiet machine the tests wait for what should happen: `STATELET_PATIENCE`, a factor for a
 * machine in emulation (`test/guest`). It lengthens limits, which are far above what they bound; no figure is changed.
 */
const FACTOR = Number(process.env['STATELET_PATIENCE'] ?? 1);

/** The machine is emulated: what takes a tenth of a second elsewhere takes seconds. */
export const isEmulated = FACTOR > 1;

export const patient = (ms: number): number => ms * FACTOR;
