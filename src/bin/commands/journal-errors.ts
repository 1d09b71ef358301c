/** From what is wrong with a journal to the exit status of the command that met it. */
import type { JournalError } from '../../kernel/journal/index.ts';
import { exitCodes } from '../exit-codes.ts';

const codes: Readonly<Record<JournalError['kind'], number>> = {
  'no-journal': exitCodes.noLog,
  damaged: exitCodes.invalidLog,
  missing: exitCodes.invalidLog,
  'unsupported-version': exitCodes.unsupportedVersion,
  owned: exitCodes.couldNotTest,
  unusable: exitCodes.couldNotTest,
};

export const exitCodeOf = (error: JournalError): number => codes[error.kind];
