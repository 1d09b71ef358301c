/** `npm run test:guest -- isolation` */
import { SUITES } from './rows/index.ts';
import { guestSuite } from './support/suite.ts';

guestSuite(SUITES.isolation);
