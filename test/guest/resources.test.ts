/** `npm run test:guest -- resources` */
import { SUITES } from './rows/index.ts';
import { guestSuite } from './support/suite.ts';

guestSuite(SUITES.resources);
