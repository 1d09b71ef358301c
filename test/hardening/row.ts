/** One thing that a node has to survive, and the tests that let it. */
import type { Proof } from '../support/proofs.ts';

export interface Row {
  /** `P1` is a promise, `F1` a fault, `B1` a bad input, `A1` an attack, anything else a known vulnerability. */
  readonly id: string;
  readonly what: string;
  readonly proofs: readonly Proof[];
  /** Why there is nothing to prove here; empty when there is. */
  readonly notHere: string;
}

export const row = (id: string, what: string, ...proofs: readonly Proof[]): Row => ({ id, what, proofs, notHere: '' });

export const notHere = (id: string, what: string, why: string): Row => ({ id, what, proofs: [], notHere: why });
