/** The five documents with their promises about the order of a start, and the comparison of a journal with them. */
import { walkthrough } from './a-walkthrough.ts';
import { callStack } from './b-call-stack.ts';
import { version15 } from './c-version-1-5.ts';
import { walkthroughAsText } from './d-walkthrough-as-text.ts';
import type { OrderDocument } from './document.ts';
import { nineteenSteps } from './e-nineteen-steps.ts';

export { checkOrder, missingSteps, stepsTaken } from './check.ts';
export { CONTRADICTIONS } from './contradictions.ts';
export type { Promised } from './document.ts';
export { isStep } from './step.ts';
export { NOT_IN_RUN_ONCE, STEP_NAMES } from './steps.ts';

export const DOCUMENTS: readonly OrderDocument[] = [
  walkthrough,
  callStack,
  version15,
  walkthroughAsText,
  nineteenSteps,
];
