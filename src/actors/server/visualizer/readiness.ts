/** Why a started node is not Ready, by the contexts of the actors that decide it. */
import type { Address } from '../../../kernel/address.ts';
import type { NodeCondition } from '../../../machines/model/api/node.ts';
import { shortText } from './trim.ts';

/** A condition may quote any text of a runtime. */
const REASON_MAX_CHARS = 1_000;

type SnapshotOf = (address: Address) => unknown;

/** Of `nodeStatus`, in a node that joins a cluster. */
interface StatusContext {
  readonly register?: boolean;
  readonly node?: { readonly status?: { readonly conditions?: readonly NodeCondition[] } } | null;
}

/** Of `clientCertificate`. */
interface CertificateContext {
  /** Null until there is a valid one. */
  readonly certificate?: object | null;
  /** Empty before a certificate was requested. */
  readonly csrName?: string;
}

/** Of `runtimeState`, which decides for a standalone node. */
interface RuntimeContext {
  readonly runtimeError?: string;
  readonly networkError?: string;
  readonly plegError?: string;
}

/**
 * Why a started node is not Ready, as shown in its API server. A node that is not registered yet is not Ready, whatever
 * its conditions. Undefined: the node is Ready, or its start has not reached the relevant actors.
 */
export function notReadyReason(root: Address, snapshotOf: SnapshotOf): string | undefined {
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the machine of this name
  const contextOf = <Context>(name: string): Context | undefined =>
    (snapshotOf(`${root}/${name}`) as { readonly context?: Context } | undefined)?.context;
  const status = contextOf<StatusContext>('nodeStatus');
  const reason = status
    ? clusterReason(status, contextOf<CertificateContext>('clientCertificate'))
    : runtimeReason(contextOf<RuntimeContext>('runtimeState'));
  return reason === undefined ? undefined : shortText(reason, REASON_MAX_CHARS);
}

function clusterReason({ node, register }: StatusContext, client: CertificateContext = {}): string | undefined {
  if (!node && client.certificate === null && client.csrName)
    return `its client certificate is missing: CertificateSigningRequest ${client.csrName} is not approved and signed`;
  if (!node)
    return register ? 'it is not registered with the API server' : 'no client of the API server has created its Node';
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
  if (!ready) return 'its status is not published';
  return ready.status === 'True' ? undefined : (ready.message ?? ready.reason);
}

function runtimeReason(context: RuntimeContext = {}): string | undefined {
  const { runtimeError, plegError, networkError } = context;
  return [runtimeError, plegError, networkError].filter(Boolean).join(', ') || undefined;
}
