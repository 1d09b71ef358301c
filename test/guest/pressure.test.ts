/** `npm run test:guest -- pressure` */
import { SUITES } from './rows/index.ts';
import { guestSuite } from './support/suite.ts';

guestSuite(SUITES.pressure);
