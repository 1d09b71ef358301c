/** Every row of the five documents, S001 to S244, with its state. */
import type { Row } from './row.ts';
import { COMMAND_ROWS } from './rows-command.ts';
import { KUBELET_ROWS } from './rows-kubelet.ts';
import { LOOP_ROWS } from './rows-loops.ts';
import { RUN_ROWS } from './rows-run.ts';

export const ROWS: readonly Row[] = [...COMMAND_ROWS, ...RUN_ROWS, ...KUBELET_ROWS, ...LOOP_ROWS];
