/** The table of what is seen on a machine with systemd and cgroup v2, in the order in which it is looked at. */
import { ENDS } from './ends.ts';
import { GROUPS } from './groups.ts';
import type { Row } from './row.ts';
import { SERVICE } from './service.ts';

export const ROWS: readonly Row[] = [...SERVICE, ...GROUPS, ...ENDS];
