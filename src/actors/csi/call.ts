/**
 * One call of a CSI driver's node service, with the text of gRPC in Go for each of its failures.
 *
 * Invariant: a driver whose socket has no listener costs no wait: as upstream, the call fails at once and its volume
 * is tried again later.
 */
import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';
import { OperationError } from '../../kernel/json.ts';
import { methodOf, unary, withClient } from '../plugins/connection.ts';

/** Upstream's limit of a call to a CSI driver. */
const TIMEOUT_MS = 120_000;
const SERVICE = 'csi.v1.Node';
const NOT_CONNECTED = /No connection established\. Last error: .*\b(E[A-Z]+)\b/;

export async function callDriver<Reply>(
  endpoint: string,
  name: string,
  request: object,
  signal: AbortSignal,
): Promise<Reply> {
  const method = methodOf<object, Reply>(SERVICE, name);
  try {
    return await withClient(endpoint, signal, (client) => unary(client, method, request, TIMEOUT_MS));
  } catch (error) {
    throw dialError(error, endpoint);
  }
}

/** Go's error for a socket without a listener. */
function dialError(thrown: unknown, endpoint: string): unknown {
  const code = thrown instanceof OperationError ? NOT_CONNECTED.exec(thrown.message)?.[1] : undefined;
  if (code === undefined) return thrown;
  const number = (constants.errno as Readonly<Record<string, number>>)[code] ?? 0;
  const text = getSystemErrorMap().get(-number)?.[1] ?? code;
  const reason = `transport: Error while dialing: dial unix ${endpoint}: connect: ${text}`;
  const message = `rpc error: code = Unavailable desc = connection error: desc = ${JSON.stringify(reason)}`;
  return new OperationError(message, { name: 'RuntimeError', code: 'UNAVAILABLE', retriable: true });
}
