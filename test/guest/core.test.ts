/** `npm run test:guest -- core` */
import { SUITES } from './rows/index.ts';
import { guestSuite } from './support/suite.ts';

guestSuite(SUITES.core);
