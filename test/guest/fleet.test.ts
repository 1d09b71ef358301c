/** `npm run test:guest -- fleet` */
import { SUITES } from './rows/index.ts';
import { guestSuite } from './support/suite.ts';

guestSuite(SUITES.fleet);
