/**
 * Types, guards and actions of the certificate manager: its requests to the cluster's signers, the meaning of their
 * answers, and the times of renewals. The chart is in `certificate-manager.ts`.
 */

import type { Json } from '../../../kernel/json.ts';
import { type Ended, errorOf, line, now, outputOf, pick, random, setup, typed } from '../../../kernel/xstate.ts';
import {
  type CertificateFacts,
  type CertificateNames,
  type CertificatePlace,
  type CertificatePurpose,
  type CertificateTemplate,
  certificateOperations,
} from '../../model/operations/certificate.ts';
import { type KubeObject, type KubeTarget, kubeOperations, type WatchItem } from '../../model/operations/kube.ts';
import { type BackOff, pauseMs } from '../../model/values/time.ts';
import type { Answer } from '../context/types.ts';

export interface CertificateManagerInput {
  readonly purpose: CertificatePurpose;
  /** The manager ends with the first certificate, or the first rejection. */
  readonly once: boolean;
  readonly signerName: string;
  readonly place: CertificatePlace;
  /** Files of the configuration that are used until there is a pair; empty without them. */
  readonly certFile: string;
  readonly keyFile: string;
  readonly template: CertificateTemplate;
  /** A serving certificate may have names only (gate AllowDNSOnlyNodeCSR); absent: it needs an address. */
  readonly mayLackAddresses?: boolean;
  /** A certificate that has expired counts as none, so that a start with one has time to get another. */
  readonly isNoneWhenExpired?: true;
}

/** How long a signature may take, because it may need manual approval. Upstream's limit. */
export const SIGNED_TIMEOUT_MS = 900_000;
const RETRY: BackOff = { baseMs: 2_000, maxMs: 32_000, jitter: 0.1 };
/** The pause between the end of one watch of the request and the next read of it. */
export const READ_AGAIN_MS = 1_000;
/** A node without a valid client certificate for this long ends, so that its supervisor restarts it. */
const LOST_MS = 300_000;
/** The shortest pause before a certificate is replaced that is nearly expired on arrival. */
const TIMER_MIN_MS = 1_000;
/** The longest timer: a later deadline takes several timers. */
const TIMER_MAX_MS = 86_400_000;

export interface Context extends CertificateManagerInput {
  readonly certificate: CertificateFacts | null;
  readonly deadlineMs: number;
  readonly attempts: number;
  readonly requested: CertificateTemplate | null;
  readonly key: { readonly $secret: string; readonly len: number } | null;
  readonly request: string;
  readonly csrName: string;
  readonly csrUid: string;
  readonly csrVersion: string;
  readonly issued: string;
  readonly refusal: string;
  readonly isServerHealthy: boolean;
  /** When the last valid certificate expires, or when this actor started without one. */
  readonly validUntilMs: number;
  /** When this actor last read the clock. */
  readonly nowMs: number;
}

type Event = ({ readonly type: 'certificate.namesChanged' } & CertificateNames) | WatchItem | Ended;

export const managerSetup = setup({
  types: typed<{
    input: CertificateManagerInput;
    context: Context;
    events: Event;
    output: Answer<CertificateFacts>;
  }>(),
  actors: {
    ...pick(certificateOperations, 'certificate.load', 'certificate.request', 'certificate.store'),
    ...pick(kubeOperations, 'kube.create', 'kube.get', 'kube.watch', 'kube.closeConnections'),
  },
  guards: {
    isOnce: ({ context }) => context.once,
    isRefused: ({ context }) => context.refusal !== '',
    isClient: ({ context }) => context.purpose === 'client',
    isIssued: ({ context }) => context.issued !== '',
    lacksNames: ({ context: { purpose, template, mayLackAddresses } }) =>
      purpose === 'serving' &&
      template.ipAddresses.length === 0 &&
      (mayLackAddresses !== true || template.dnsNames.length === 0),
    lacksCertificate: ({ context }) => certificateProblem(context) !== '',
    asksForOther: ({ context }) =>
      certificateProblem(context) !== '' && JSON.stringify(context.requested) !== JSON.stringify(context.template),
    isDue: ({ context }) => context.deadlineMs <= context.nowMs,
    isLost: ({ context }) => context.nowMs >= context.validUntilMs + LOST_MS,
    isGuarded: ({ context }) => context.purpose === 'client' && !context.once,
    isValidAgain: ({ context }) => context.nowMs < context.validUntilMs,
    isServerHealthy: ({ context }) => context.isServerHealthy,
  },
  delays: {
    untilDeadline: (args) => bounded(args.context.deadlineMs - now({ system: args.self.system })),
    untilLost: (args) => bounded(args.context.validUntilMs + LOST_MS - now({ system: args.self.system })),
    backoff: (args) => pauseMs(RETRY, args.context.attempts - 1, random(args)),
  },
});

const bounded = (ms: number): number => Math.min(Math.max(ms, TIMER_MIN_MS), TIMER_MAX_MS);

/** Why the current certificate is insufficient; empty if it is not. */
const certificateProblem = ({ certificate, template }: Context): string =>
  certificate === null ? 'there is none' : missingIn(certificate, template);

/** The client with the node's own certificate if that is valid, otherwise with the configured credentials. */
function clientOf({ purpose, once, certificate }: Context, nowMs: number): KubeTarget['client'] {
  if (purpose === 'serving') return 'kube';
  return once || certificate === null || certificate.notAfterMs <= nowMs ? 'bootstrap' : 'kube';
}

export const csrOf = (args: { context: Context; self: { system: object } }, name?: string) =>
  csrTarget(clientOf(args.context, now({ system: args.self.system })), name);

export const logLine = (text: string, fields: (context: Context) => Record<string, string> = () => ({})) =>
  line<Context, Event, undefined, Event>('info', ({ context }) => [
    text,
    { logger: context.signerName, ...fields(context) },
  ]);

/** When the node is without a valid certificate, if none is issued; `notAfterMs` is that of the loaded one. */
export const validUntil = ({ isNoneWhenExpired, validUntilMs }: Context, notAfterMs: number): number =>
  isNoneWhenExpired === true ? Math.max(notAfterMs, validUntilMs) : notAfterMs;

export const readClock = managerSetup.assign({ nowMs: (args) => now({ system: args.self.system }) });

export const noteCertificateInUse = managerSetup.assign((args) => {
  const certificate = outputOf<CertificateFacts>(args.event);
  return { certificate, attempts: 0, key: null, validUntilMs: certificate.notAfterMs, isServerHealthy: true };
});

export const setDeadline = managerSetup.enqueueActions((args) => {
  const { certificate, signerName } = args.context;
  if (certificate === null) return;
  const deadlineMs = rotationDeadline(certificate, random(args));
  args.enqueue.assign({ deadlineMs });
  args.enqueue(
    line('info', [
      'Certificate rotation deadline determined',
      {
        logger: signerName,
        expiration: new Date(certificate.notAfterMs).toISOString(),
        deadline: new Date(deadlineMs).toISOString(),
      },
    ]),
  );
});

/** A failed attempt: logged and counted; records whether the server is healthy. */
export const failed = (text: string, prefix = '') =>
  managerSetup.enqueueActions(({ context, event, enqueue }) => {
    const { message } = errorOf(event);
    enqueue.assign({ attempts: context.attempts + 1, key: null, refusal: context.once ? `${prefix}${message}` : '' });
    enqueue(line('error', [text, { err: `${prefix}${message}`, logger: context.signerName }]));
  });

export const notSigned = (reason: (args: { context: Context; event: Event }) => string) =>
  managerSetup.enqueueActions(({ context, event, enqueue }) => {
    const err = reason({ context, event });
    enqueue.assign({ attempts: context.attempts + 1, key: null, refusal: context.once ? err : '' });
    enqueue(line('error', ['Certificate request was not signed', { err, logger: context.signerName }]));
  });

/** Rejections that a healthy server may send. */
const HEALTHY = ['Unauthorized', 'NotFound', 'Forbidden'];
export const noteServerHealth = managerSetup.assign({
  isServerHealthy: ({ event }) => HEALTHY.includes(errorOf(event).code ?? ''),
});

export const storeRequest = managerSetup.assign(({ event }) => {
  const { metadata } = outputOf<KubeObject>(event);
  const { name, uid, resourceVersion } = metadata as { name: string; uid: string; resourceVersion: string };
  return { csrName: name, csrUid: uid, csrVersion: resourceVersion, issued: '' };
});

const objectOf = (event: Event): KubeObject =>
  event.type === 'watch.changed' ? event.object : outputOf<KubeObject>(event);

export const handleVerdict = managerSetup.enqueueActions(({ context, event, enqueue }) => {
  const object = objectOf(event);
  const verdict = verdictOf(object, context.csrUid);
  const fields = { logger: context.signerName, csr: context.csrName };
  enqueue.assign({
    csrVersion: object.metadata.resourceVersion ?? context.csrVersion,
    issued: verdict.state === 'issued' ? verdict.certificate : '',
  });
  if (verdict.state === 'issued') enqueue(line('info', ['Certificate signing request is issued', fields]));
  if (verdict.state === 'approved') {
    enqueue(line('info', ['Certificate signing request is approved, waiting to be issued', fields]));
  }
});

export const isRefusing = ({ context, event }: { context: Context; event: Event }): boolean =>
  verdictOf(objectOf(event), context.csrUid).state === 'refused';

export const refusing = notSigned(({ context, event }) => {
  const verdict = verdictOf(objectOf(event), context.csrUid);
  return `cannot watch on the certificate signing request: ${verdict.state === 'refused' ? verdict.message : ''}`;
});

export const handleNames = managerSetup.assign(({ context, event }) => {
  if (event.type !== 'certificate.namesChanged') return {};
  const nodeName = context.template.commonName.slice('system:node:'.length);
  return { template: nodeTemplate(nodeName, event) };
});

/** Logs why the current certificate is insufficient. */
export const logCertificateProblem = managerSetup.enqueueActions(({ context, enqueue }) => {
  if (context.certificate !== null)
    enqueue(line('info', [certificateProblem(context), { logger: context.signerName }]));
});

export const CLIENT_SIGNER = 'kubernetes.io/kube-apiserver-client-kubelet';
export const SERVING_SIGNER = 'kubernetes.io/kubelet-serving';

export const clientPlace = (directory: string): CertificatePlace => ({ directory, name: 'kubelet-client' });
export const servingPlace = (directory: string): CertificatePlace => ({ directory, name: 'kubelet-server' });

export const nodeTemplate = (nodeName: string, names: CertificateNames): CertificateTemplate => ({
  commonName: `system:node:${nodeName}`,
  organizations: ['system:nodes'],
  dnsNames: [...new Set(names.dnsNames)].toSorted(),
  ipAddresses: [...new Set(names.ipAddresses)].toSorted(),
});

export const csrTarget = (client: KubeTarget['client'], name?: string): KubeTarget => ({
  client,
  apiVersion: 'certificates.k8s.io/v1',
  resource: 'certificatesigningrequests',
  ...(name === undefined ? {} : { name }),
});

/** Key encipherment is for RSA keys; the keys of the manager are of an elliptic curve. */
export const usagesOf = (purpose: CertificatePurpose): readonly string[] => [
  'digital signature',
  purpose === 'client' ? 'client auth' : 'server auth',
];

/** The object of a request, with a name of the server's choice unless there is one. */
export const csrObject = (
  signerName: string,
  request: string,
  usages: readonly string[],
  metadata: Json = { generateName: 'csr-' },
): Json => ({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'CertificateSigningRequest',
  metadata,
  spec: { request, signerName, usages },
});

/** The state of a request. `certificate` is PEM in base64. */
export type Verdict =
  | { readonly state: 'pending' | 'approved' }
  | { readonly state: 'issued'; readonly certificate: string }
  | { readonly state: 'refused'; readonly message: string };

interface Condition {
  readonly type: string;
  readonly reason?: string;
  readonly message?: string;
}

export function verdictOf(csr: KubeObject, uid: string): Verdict {
  const { uid: own } = csr.metadata;
  if (own !== uid) {
    return { state: 'refused', message: `csr "${csr.metadata.name}" changed UIDs` };
  }
  const status = (csr['status'] ?? {}) as { readonly conditions?: readonly Condition[]; readonly certificate?: string };
  const refused = status.conditions?.find(({ type }) => type === 'Denied' || type === 'Failed');
  if (refused) {
    const word = refused.type === 'Denied' ? 'is denied' : 'failed';
    const message = `certificate signing request ${word}, reason: ${refused.reason ?? ''}, message: ${refused.message ?? ''}`;
    return { state: 'refused', message };
  }
  if (!status.conditions?.some(({ type }) => type === 'Approved')) return { state: 'pending' };
  return status.certificate ? { state: 'issued', certificate: status.certificate } : { state: 'approved' };
}

/** Between 70 and 90 per cent of the lifetime, so that nodes that joined together do not rotate together. */
export function rotationDeadline({ notBeforeMs, notAfterMs }: CertificateFacts, random: number): number {
  return notBeforeMs + (notAfterMs - notBeforeMs) * (0.7 + 0.2 * random);
}

/** The requested names that the certificate lacks; empty if it has all. Additional names are accepted. */
export function missingIn(certificate: CertificateFacts, template: CertificateTemplate): string {
  const missingFrom = (wanted: readonly string[], has: readonly string[]) =>
    wanted.filter((each) => !has.includes(each));
  if (certificate.commonName !== template.commonName) {
    return `Current certificate CN (${certificate.commonName}) does not match requested CN (${template.commonName})`;
  }
  const dnsNames = missingFrom(template.dnsNames, certificate.dnsNames);
  if (dnsNames.length > 0) return `Current certificate is missing requested DNS names [${dnsNames.join(' ')}]`;
  const ipAddresses = missingFrom(template.ipAddresses, certificate.ipAddresses);
  if (ipAddresses.length > 0) return `Current certificate is missing requested IP addresses [${ipAddresses.join(' ')}]`;
  const organizations = missingFrom(template.organizations, certificate.organizations);
  return organizations.length > 0 ? `Current certificate is missing requested orgs [${organizations.join(' ')}]` : '';
}
