/** A fault or an attack that a node has to survive, and its tests. */
import type { Proof } from '../support/proofs.ts';

export interface Row {
  /** `P1` is a promise, `F1` a fault, `B1` a bad input, `A1` an attack, anything else a known vulnerability. */
  readonly id: string;
  readonly what: string;
  readonly proofs: readonly Proof[];
  /** Why nothing has to be proved here; otherwise empty. */
  readonly notHere: string;
}

export const row = (id: string, what: string, ...proofs: readonly Proof[]): Row => ({ id, what, proofs, notHere: '' });

export const notHere = (id: string, what: string, why: string): Row => ({ id, what, proofs: [], notHere: why });
