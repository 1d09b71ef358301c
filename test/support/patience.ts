/**
 * The factor by which time limits of tests are longer than on a quiet machine: `STATELET_PATIENCE`, for an emulated
 * machine (`test/guest`). The limits are far above the usual durations; no measured figure is changed.
 */
const FACTOR = Number(process.env['STATELET_PATIENCE'] ?? 1);

/** The machine is emulated: what takes a tenth of a second elsewhere takes seconds. */
export const isEmulated = FACTOR > 1;

export const patient = (ms: number): number => ms * FACTOR;
