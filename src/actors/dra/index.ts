/**
 * Ports for `dra.*`: the calls to resource drivers.
 *
 * Invariant: an answer counts only for requested claims, and each of these needs one.
 * Upstream: pkg/kubelet/cm/dra/plugin/dra_plugin.go, pkg/kubelet/cm/dra/manager.go.
 */
import { OperationError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { ClaimDevice, DraCall, DraPrepared, draOperations } from '../../machines/model/operations/dra.ts';
import { called, methodOf } from '../plugins/connection.ts';
import { followDriver } from './follow.ts';

/** Upstream's timeout of a call to a driver. */
const TIMEOUT_MS = 45_000;
/** Fits claims with thousands of devices; a driver that sends more would fill the journal. */
const REPLY_MAX_BYTES = 1_024 * 1_024;
const PACKAGE = 'k8s.io.kubelet.pkg.apis.dra';

type Method = 'NodePrepareResources' | 'NodeUnprepareResources';

interface Answer {
  readonly error: string;
  /** Only in the answer to a preparation. */
  readonly devices?: readonly {
    readonly request_names: readonly string[];
    readonly pool_name: string;
    readonly device_name: string;
    readonly cdi_device_ids: readonly string[];
    readonly share_id?: string;
  }[];
}

interface Reply {
  readonly claims: Readonly<Record<string, Answer | null>>;
}

export const draPorts = (): Ports<typeof draOperations> => ({
  'dra.prepare': async ({ input: { calls }, signal }) => {
    const prepared: DraPrepared[] = [];
    for (const call of calls) prepared.push(await prepare(call, signal));
    return { prepared };
  },
  'dra.unprepare': async ({ input: { calls }, signal }) => {
    for (const call of calls) await callForClaims(call, 'NodeUnprepareResources', signal);
    return null;
  },
  'dra.follow': followDriver,
});

async function prepare(call: DraCall, signal: AbortSignal): Promise<DraPrepared> {
  const answers = await callForClaims(call, 'NodePrepareResources', signal);
  const claims = answers.map(([uid, answer]) => [uid, (answer?.devices ?? []).map(deviceOf)] as const);
  return { driver: call.driver, claims: Object.fromEntries(claims) };
}

const deviceOf = (device: NonNullable<Answer['devices']>[number]): ClaimDevice => ({
  pool: device.pool_name,
  device: device.device_name,
  share: device.share_id ?? null,
  requests: device.request_names,
  cdi: device.cdi_device_ids,
});

/** A driver's answer for each claim of a call, or upstream's error. */
async function callForClaims(
  { endpoint, service, claims }: DraCall,
  name: Method,
  signal: AbortSignal,
): Promise<readonly (readonly [uid: string, answer: Answer | null])[]> {
  const method = methodOf<object, Reply>(`${PACKAGE}.${service}`, name);
  const channel = { 'grpc.max_receive_message_length': REPLY_MAX_BYTES };
  const answers = await called(endpoint, method, { claims }, { timeoutMs: TIMEOUT_MS, signal, channel }).then(
    (reply) => Object.entries(reply.claims),
    (error: unknown) => {
      throw new OperationError(`${name}: ${messageOf(error)}`, { code: 'UNAVAILABLE', retriable: true });
    },
  );
  for (const [uid, answer] of answers) {
    const claim = claims.find((each) => each.uid === uid);
    if (claim === undefined) throw new OperationError(`${name} returned result for unknown claim UID ${uid}`);
    const error = answer?.error ?? '';
    if (error !== '') throw new OperationError(`${name} failed for ResourceClaim ${claim.name}: ${error}`);
  }
  const skipped = claims.length - answers.length;
  if (skipped !== 0) throw new OperationError(`${name} skipped ${skipped} ResourceClaims`);
  return answers;
}
