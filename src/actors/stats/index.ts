/** Use of this machine, for machines that decide by it and for ports that serve it. */
import type { Ports } from '../../kernel/operation.ts';
import type { statsOperations } from '../../machines/model/operations/stats.ts';
import type { StatsReader } from './reader.ts';
import { signalPorts } from './signals.ts';
import { watchStorage } from './storage.ts';

export { StatsReader } from './reader.ts';

/** The operations `stats.*` on this reader. */
export const statsPorts = (reader: StatsReader): Ports<typeof statsOperations> => ({
  ...signalPorts(reader),
  'stats.watchStorage': watchStorage(reader),
});
