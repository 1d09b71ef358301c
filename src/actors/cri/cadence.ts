/**
 * How often to relist: fast until the event stream has proved itself, then rarely.
 *
 * A relist that finds nothing which the events had not brought counts for the stream; one that finds more counts
 * against it, and each such miss doubles the proof that is required. Pure.
 */
/** Clean relists before the fast phase ends. */
const FIRST_PROOF = 5;
/** The most proof ever required; at one relist a second, about five minutes. */
const MAX_PROOF = 320;
/** Clean and quiet relists at the settled period before the quiet one. */
const QUIET_AFTER = 6;

export interface Cadence {
  readonly phase: 'fast' | 'settled' | 'quiet';
  /** Clean relists in a row in this phase. */
  readonly clean: number;
  /** Clean relists that end the fast phase. */
  readonly proof: number;
}

export interface RelistOutcome {
  /** An event stream was open the whole time since the last relist. */
  readonly listening: boolean;
  /** The relist found a change that no event had announced. */
  readonly missed: boolean;
  /** A pod could not be inspected, or the relist itself failed. */
  readonly troubled: boolean;
  /** Events came in since the last relist. */
  readonly active: boolean;
}

export const initialCadence: Cadence = { phase: 'fast', clean: 0, proof: FIRST_PROOF };

export function nextCadence({ phase, clean, proof }: Cadence, outcome: RelistOutcome): Cadence {
  if (outcome.missed) return { phase: 'fast', clean: 0, proof: Math.min(proof * 2, MAX_PROOF) };
  if (!outcome.listening || outcome.troubled) return { phase: 'fast', clean: 0, proof };
  if (phase === 'fast') {
    return clean + 1 < proof ? { phase, clean: clean + 1, proof } : { phase: 'settled', clean: 0, proof };
  }
  if (outcome.active) return { phase: 'settled', clean: 0, proof };
  return clean + 1 < QUIET_AFTER ? { phase, clean: clean + 1, proof } : { phase: 'quiet', clean, proof };
}
