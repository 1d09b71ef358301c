/** The worker of the page, which does everything that takes time, so that the page never waits. */

import { messageOf } from '../../kernel/thrown.ts';
import { withoutFolders } from './opened.ts';
import { PageAnswers } from './page-answers.ts';
import type { FromWorker, ToWorker } from './requests.ts';

const post = (message: FromWorker): void => self.postMessage(message, { transfer: [] });

const answers = new PageAnswers(
  { journals: () => import('./journals.ts'), machines: () => import('./execution.ts') },
  (notice) => post({ notice }),
);

self.addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
  const { id, name, asked } = data;
  answers.answer(name, asked).then(
    (answer) => post({ id, answer }),
    (error: unknown) => post({ id, error: withoutFolders(messageOf(error)) }),
  );
});
