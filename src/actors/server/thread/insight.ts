/** Answers about the program, given by the thread that decides: people ask for its profiles, not for the servers'. */
import { ownInsight } from '../http/inspector.ts';
import type { QuestionAnswers } from './questions.ts';

export const insightAnswers: Pick<QuestionAnswers, 'facts' | 'profile' | 'heap'> = {
  facts: () => ownInsight.facts(),
  profile: ({ kind, seconds }, { signal }) => ownInsight.profile(kind, seconds, signal),
  heap: async (_input, { signal, emit }) => {
    const snapshot = ownInsight.heap().setEncoding('utf8');
    for await (const piece of snapshot) {
      if (signal.aborted) break;
      await emit(piece);
    }
    return null;
  },
};
