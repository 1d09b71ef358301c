/** The location of files that come with the program: contracts, charts, the visualizer's page. */
import { findPackageJSON } from 'node:module';
import { dirname } from 'node:path';

const description = findPackageJSON(import.meta.url);
if (description === undefined) throw new Error('the program has lost its package.json; install it again');

/** Absolute; the same for the sources and for the output of `npm run bundle`. */
export const PACKAGE_DIRECTORY = dirname(description);
/** The contracts of gRPC. */
export const PROTO_DIRECTORY = `${PACKAGE_DIRECTORY}/proto`;
