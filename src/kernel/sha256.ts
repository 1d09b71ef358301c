/** SHA-256 of a text, in hexadecimal: a pure function of Node's that machines may call. */
import { hash } from 'node:crypto';

export const sha256 = (text: string): string => hash('sha256', text, 'hex');
