/**
 * Ports for `dra.*`: calls to resource drivers; and `dra.follow`, the connection to a driver with the health of its
 * devices.
 *
 * Invariants: an answer counts only for requested claims, and each of these needs one; the health of a device that was
 * not reported again in time is unknown; only changes are emitted; a driver that reports endlessly slows down only its
 * own stream.
 *
 * Upstream: pkg/kubelet/cm/dra/plugin/dra_plugin.go, dra_plugin_manager.go, pkg/kubelet/cm/dra/manager.go,
 * healthinfo.go. KEP 4680.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../../kernel/json.ts';
import type { Port, PortCall, Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type {
  ClaimDevice,
  DeviceReport,
  DraCall,
  DraItem,
  DraPlugin,
  DraPrepared,
  draOperations,
} from '../../machines/model/operations/dra.ts';
import { aborted } from '../pause.ts';
import { called, messagesOf, methodOf, withClient } from '../plugins/connection.ts';
import { TokenBucket } from '../token-bucket.ts';

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

/** Upstream's pause before a stream of reports is reopened. */
const REOPEN_MS = 5_000;
/** A driver without health reports may support them in its next version. */
const UNIMPLEMENTED_MS = 60_000;
/** Upstream's validity of a report in which the driver states no other. */
const REPORT_VALID_MS = 30_000;
/** The maximum validity: a device that is reported once a day is known. */
const REPORT_VALID_MAX_MS = 86_400_000;
const SECOND_MS = 1_000;
const REPORT_MAX_BYTES = 1_024 * 1_024;
/** Each reported device costs the turn some microseconds. */
const DEVICES_MAX = 8_192;
/** Characters of a message: one more than a status has, which marks what it cuts. */
const MESSAGE_MAX = 1_025;
/** Reports accepted at once, as when devices fail one by one, and then per second. */
const [REPORTS_BURST, REPORTS_PER_SECOND] = [20, 2];

type Call = PortCall<DraPlugin, DraItem>;

const followDriver: Port<(typeof draOperations)['dra.follow']> = async (call) => {
  const { input, signal } = call;
  const channel = { 'grpc.max_receive_message_length': REPORT_MAX_BYTES };
  await withClient(
    input.endpoint,
    signal,
    async (client) => {
      await Promise.race([aborted(signal), followConnection(client, call), followHealth(client, call)]);
    },
    channel,
  );
  return null;
};

/** Changes of a connection noticed at once, as when a driver restarts, and then per second: each may cost a turn. */
const [CHANGES_BURST, CHANGES_PER_SECOND] = [20, 2];

/** Requests a connection whenever there is none, so that a restarted driver is noticed. */
async function followConnection(client: grpc.Client, call: Call): Promise<void> {
  const { signal } = call;
  const channel = client.getChannel();
  const bucket = new TokenBucket(CHANGES_PER_SECOND, CHANGES_BURST);
  let before: boolean | null = null;
  while (!signal.aborted) {
    await bucket.take(signal).catch(() => {});
    if (signal.aborted) return;
    const state = channel.getConnectivityState(true);
    const isConnected = state === grpc.connectivityState.READY;
    if (isConnected !== before) call.emit({ type: 'dra.connected', isConnected });
    before = isConnected;
    await new Promise<void>((resolve) => {
      channel.watchConnectivityState(state, Infinity, () => resolve());
    });
  }
}

interface HealthReply {
  readonly devices: readonly {
    readonly device: { readonly pool_name: string; readonly device_name: string } | null;
    readonly health: string;
    readonly health_check_timeout_seconds: string;
    readonly message: string;
  }[];
}

async function followHealth(client: grpc.Client, call: Call): Promise<void> {
  const { signal } = call;
  while (!signal.aborted) {
    const known = new HealthCache(call);
    const isImplemented = await reports(client, signal, known);
    known.close();
    await sleep(isImplemented ? REOPEN_MS : UNIMPLEMENTED_MS, undefined, { signal }).catch(() => {});
  }
}

/** Reads the reports of one stream. False: the driver does not report health. */
async function reports(client: grpc.Client, signal: AbortSignal, known: HealthCache): Promise<boolean> {
  const method = methodOf<object, HealthReply>('v1alpha1.DRAResourceHealth', 'NodeWatchResources');
  const bucket = new TokenBucket(REPORTS_PER_SECOND, REPORTS_BURST);
  try {
    for await (const { devices } of messagesOf(client, method, signal)) {
      await bucket.take(signal);
      if (!known.take(devices)) throw new OperationError(`the driver reports more than ${DEVICES_MAX} devices`);
    }
    return true;
  } catch (error) {
    return (error as grpc.ServiceError).code !== grpc.status.UNIMPLEMENTED;
  }
}

/** The reported health of a driver's devices, while it is valid. */
class HealthCache {
  private readonly call: Call;
  private readonly devices = new Map<string, DeviceReport & { readonly untilMs: number }>();
  private emitted = '{}';
  private timer: NodeJS.Timeout | undefined;

  constructor(call: Call) {
    this.call = call;
  }

  /** Notes a report, and emits the changes. False, and nothing is emitted: too many devices are known. */
  take(devices: HealthReply['devices']): boolean {
    const nowMs = performance.now();
    for (const { device, health, message, health_check_timeout_seconds: seconds } of devices) {
      const key = `${device?.pool_name ?? ''}/${device?.device_name ?? ''}`;
      const condition = CONDITIONS[health] ?? 'Unknown';
      const validMs = Number(seconds) > 0 ? Number(seconds) * SECOND_MS : REPORT_VALID_MS;
      const untilMs = nowMs + Math.min(validMs, REPORT_VALID_MAX_MS);
      if (condition === 'Unknown' && message === '') this.devices.delete(key);
      else this.devices.set(key, { health: condition, message: message.slice(0, MESSAGE_MAX), untilMs });
    }
    if (this.devices.size > DEVICES_MAX) return false;
    this.emit();
    return true;
  }

  /** Marks the health of every device as unknown. */
  close(): void {
    this.devices.clear();
    this.emit();
  }

  private emit(): void {
    clearTimeout(this.timer);
    const nowMs = performance.now();
    for (const [key, { untilMs }] of this.devices) if (untilMs <= nowMs) this.devices.delete(key);
    const entries = [...this.devices].map(([key, { health, message }]) => [key, { health, message }] as const);
    const devices = Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
    const text = JSON.stringify(devices);
    if (text !== this.emitted && !this.call.signal.aborted) this.call.emit({ type: 'dra.healthChanged', devices });
    this.emitted = text;
    const next = Math.min(...[...this.devices.values()].map(({ untilMs }) => untilMs));
    if (Number.isFinite(next)) this.timer = setTimeout(() => this.emit(), next - nowMs + 1).unref();
  }
}

const CONDITIONS: Readonly<Record<string, DeviceReport['health']>> = { HEALTHY: 'Healthy', UNHEALTHY: 'Unhealthy' };
