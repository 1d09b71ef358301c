/**
 * Certificates that are renewed by the cluster: their expiry, failed renewals, and the age at rotation. As upstream,
 * only for certificates that this node manages.
 */
import type { Counter, Histogram, Registry } from 'prom-client';
import { memberOf } from '../../../../kernel/json.ts';
import type { StateRecord } from '../../../../kernel/records.ts';
import type { CertificateFacts } from '../../../../machines/model/operations/certificate.ts';
import type { NodeRecord, NodeResult } from '../../../node-records.ts';
import type { Projection, RecordContext } from '../instruments.ts';
import { counter, histogram, Instruments, MS_PER_SECOND, sampledGauge } from '../instruments.ts';

const MANAGER = /^kubelet\/(?<purpose>clientCertificate|servingCertificate)(?=\/|$)/;
/** Upstream's buckets in seconds: a minute, hours, and days up to four years. */
const LIFE_BUCKETS = [60, 3_600, 14_400, 86_400, 604_800, 2_592_000, 7_776_000, 15_552_000, 31_104_000, 124_416_000];
const PREFIX = 'kubelet_certificate_manager_';

const PURPOSES = ['clientCertificate', 'servingCertificate'] as const;
type Purpose = (typeof PURPOSES)[number];

interface Managed {
  readonly failures: Counter;
  /** `null` if upstream has none for this purpose. */
  readonly lives: Histogram | null;
  certificate: CertificateFacts | null;
  rotation: unknown;
}

export class Certificates extends Instruments implements Projection {
  readonly recordKinds = ['state', 'result'] as const;
  readonly #managed = new Map<string, Managed>();

  on(record: NodeRecord, { kernel }: RecordContext): void {
    if (record.k !== 'state' && record.k !== 'result') return;
    const found = MANAGER.exec(record.at);
    if (!found) return;
    const purpose = PURPOSES.find((each) => each === found.groups?.['purpose']);
    if (purpose === undefined) return;
    const managed = this.#managed.get(purpose) ?? this.#begin(purpose);
    if (record.k === 'result') noteCertificate(managed, record, kernel.now);
    else if (record.at === found[0]) countFailedRenewal(managed, record);
  }

  #begin(purpose: Purpose): Managed {
    const isClient = purpose === 'clientCertificate';
    const failed = isClient ? `${PREFIX}client_expiration_renew_errors` : 'kubelet_server_expiration_renew_errors';
    const managed: Managed = {
      failures: counter(this.registry, failed, '[ALPHA] Counter of certificate renewal errors.'),
      lives: isClient ? null : lifetimeHistogram(this.registry),
      certificate: null,
      rotation: null,
    };
    this.#managed.set(purpose, managed);
    const { name, help } = isClient ? CLIENT : SERVER;
    sampledGauge(this.registry, name, help, () => remainingSeconds(managed.certificate));
    return managed;
  }
}

const END = 'The value is in seconds until certificate expiry (negative if already expired).';
const CLIENT = {
  name: `${PREFIX}client_ttl_seconds`,
  help:
    `[ALPHA] Gauge of the TTL (time-to-live) of the Kubelet's client certificate. ${END} ` +
    'If client certificate is invalid or unused, the value will be +INF.',
};
const SERVER = {
  name: `${PREFIX}server_ttl_seconds`,
  help:
    `[ALPHA] Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. ${END} ` +
    'If serving certificate is invalid or unused, the value will be +INF.',
};

const lifetimeHistogram = (registry: Registry): Histogram =>
  histogram(
    registry,
    `${PREFIX}server_rotation_seconds`,
    '[ALPHA] Histogram of the number of seconds the previous certificate lived before being rotated.',
    LIFE_BUCKETS,
  );

const remainingSeconds = (certificate: CertificateFacts | null): number =>
  certificate === null ? Number.POSITIVE_INFINITY : Math.trunc((certificate.notAfterMs - Date.now()) / MS_PER_SECOND);

function noteCertificate(managed: Managed, result: NodeResult, nowMs: number): void {
  if (result.error) return;
  if (result.name === 'certificate.load') managed.certificate = result.output.certificate;
  if (result.name !== 'certificate.store') return;
  if (managed.certificate) managed.lives?.observe((nowMs - managed.certificate.notBeforeMs) / MS_PER_SECOND);
  managed.certificate = result.output;
}

/** Counts a failed renewal, after which the machine always waits for another attempt. */
function countFailedRenewal(managed: Managed, { value }: StateRecord): void {
  const rotation = memberOf(memberOf(value, 'working'), 'rotation');
  if (rotation === 'backingOff' && managed.rotation !== rotation) managed.failures.inc();
  managed.rotation = rotation;
}
