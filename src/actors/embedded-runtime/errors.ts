/** Errors of the embedded runtime: gRPC codes and texts as containerd's. */
import { status } from '@grpc/grpc-js';

export class CriError extends Error {
  readonly code: status;
  constructor(code: status, message: string) {
    super(message);
    this.name = 'CriError';
    this.code = code;
  }
}

export const notFound = (message: string): CriError => new CriError(status.NOT_FOUND, message);
export const invalid = (message: string): CriError => new CriError(status.INVALID_ARGUMENT, message);
/** containerd reports a wrong state without a code of its own. */
export const wrongState = (message: string): CriError => new CriError(status.UNKNOWN, message);
export const unimplemented = (message: string): CriError => new CriError(status.UNIMPLEMENTED, message);

export const containerNotFound = (id: string): CriError =>
  notFound(`an error occurred when try to find container "${id}": not found`);
export const sandboxNotFound = (id: string): CriError =>
  notFound(`an error occurred when try to find sandbox "${id}": not found`);
