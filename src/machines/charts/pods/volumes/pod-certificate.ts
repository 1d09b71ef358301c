/**
 * A certificate of a pod (`certificate-<n>` below it), for one `podCertificate` source of a projected volume.
 *
 * Decides: when a key is created and a certificate is requested: at first, and at the signer's refresh time, with
 *   jitter so that many pods do not request at once.
 * Owns: the request in progress; when the newest certificate was due for renewal. Never the key: that is a handle.
 * Hears: the reflector of its PodCertificateRequest.
 * Asks: `kube.get` of the service account and the Node for their uids, `certificate.podKey`, `kube.create` of the
 *   request.
 * Sends: its pod `object.found`; `eventRecorder` a refusal, and an overdue certificate.
 * Invariants:
 *   K1 a key is used for one request only, and is shown with its own certificate only.
 *   K2 the pod keeps its certificate until there is another one, whatever the signer answers.
 *   K3 a request that was denied or failed is never repeated: the pod is sent the reason.
 * Upstream: pkg/kubelet/podcertificate/podcertificatemanager.go.
 */

import type { Ended, EnqueueOf, SecretHandle } from '../../../../kernel/xstate.ts';
import {
  assign,
  errorIn,
  isObject,
  now,
  outputOf,
  pick,
  random,
  sendParent,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { ObjectReference, PodRef } from '../../../model/api/pod.ts';
import { versionOf } from '../../../model/objects/config-objects.ts';
import type { ObjectFound, ObjectState } from '../../../model/objects/keys.ts';
import { certificatesPem, pemBlocks } from '../../../model/objects/trust-anchors.ts';
import { certificateOperations } from '../../../model/operations/certificate.ts';
import { type KubeObject, kubeOperations } from '../../../model/operations/kube.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { type BackOff, OPERATION_BACK_OFF, pauseMs } from '../../../model/values/time.ts';
import { type CertificateSource, NOT_ISSUED } from '../../../model/volumes/credentials.ts';
import { type ReflectorReport, reflectorMachine } from '../../kube/reflector.ts';

const RETRY: BackOff = { ...OPERATION_BACK_OFF, jitter: 0.5 };
/** Upstream's limits: a request not seen for this long was deleted; a certificate due for this long is overdue. */
const ABANDON_MS = 600_000;
const OVERDUE_MS = 600_000;
const JITTER_MS = 300_000;
/** The shortest refresh time that a signer may set. */
const REFRESH_MIN_MS = 60_000;
/** The pod reports what it waits for if it has no certificate for this long. */
const UNISSUED_MS = 10_000;

export interface CertificateInput {
  readonly pod: PodRef;
  readonly ref: ObjectReference;
  readonly key: string;
  readonly serviceAccount: string;
  readonly nodeName: string;
  readonly source: CertificateSource;
}

interface Context extends CertificateInput {
  readonly accountUid: string;
  readonly nodeUid: string;
  /** The name of the request and its key; `null` if no request is in progress. */
  readonly made: { readonly request: string; readonly key: SecretHandle } | null;
  readonly requestName: string;
  /** The watch has shown the request. */
  readonly isSeen: boolean;
  readonly isIssued: boolean;
  readonly refreshMs: number;
  readonly overdueMs: number;
  readonly expiresMs: number;
  readonly failures: number;
  readonly untilMs: number;
}

type Event = ReflectorReport | { readonly type: 'certificate.issued' } | Ended;

/** The outcome of a request. */
type Outcome =
  | { readonly is: 'gone' | 'unseen' | 'pending' | 'malformed' }
  | { readonly is: 'Denied' | 'Failed'; readonly reason: string; readonly message: string }
  | { readonly is: 'issued'; readonly chain: string; readonly refreshMs: number; readonly expiresMs: number };

function outcomeOf(event: Event): Outcome {
  if (event.type === 'reflector.changed') return event.change === 'DELETED' ? { is: 'gone' } : read(event.object);
  const [object] = event.type === 'reflector.listed' ? event.items : [];
  return object ? read(object) : { is: 'unseen' };
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function read(object: KubeObject): Outcome {
  const status = isObject(object['status']) ? object['status'] : {};
  const conditions = Array.isArray(status['conditions']) ? status['conditions'].filter(isObject) : [];
  const done = conditions.find(({ type }) => type === 'Denied' || type === 'Failed' || type === 'Issued');
  if (done === undefined) return { is: 'pending' };
  const { type } = done;
  if (type === 'Denied' || type === 'Failed') {
    return { is: type, reason: textOf(done['reason']), message: textOf(done['message']) };
  }
  const chain = certificatesPem(pemBlocks(textOf(status['certificateChain'])));
  const refreshMs = Date.parse(textOf(status['beginRefreshAt']));
  const expiresMs = Date.parse(textOf(status['notAfter']));
  const isWhole = chain !== '' && !Number.isNaN(refreshMs) && !Number.isNaN(expiresMs);
  return isWhole ? { is: 'issued', chain, refreshMs, expiresMs } : { is: 'malformed' };
}

const isOutcome =
  (...kinds: readonly Outcome['is'][]) =>
  ({ event }: { readonly event: Event }) =>
    kinds.includes(outcomeOf(event).is);

const s = setup({
  types: typed<{ input: CertificateInput; context: Context; events: Event }>(),
  actors: {
    reflector: reflectorMachine,
    ...pick({ ...kubeOperations, ...certificateOperations }, 'kube.get', 'kube.create', 'certificate.podKey'),
  },
  guards: {
    isDeleted: ({ context, event }) => {
      const { is } = outcomeOf(event);
      return is === 'gone' || (is === 'unseen' && context.isSeen);
    },
    isRefused: isOutcome('Denied', 'Failed'),
    isMalformed: isOutcome('malformed'),
    isIssued: isOutcome('issued'),
    isPending: isOutcome('pending'),
    isUnseen: ({ context }) => !context.isSeen,
    isUnissued: ({ context }) => !context.isIssued,
  },
  delays: {
    refresh: (args) => Math.max(0, args.context.refreshMs - now(args)),
    overdue: (args) => Math.max(0, args.context.overdueMs - now(args)),
    expiry: (args) => Math.max(0, args.context.expiresMs - now(args)),
    retry: (args) => Math.max(0, args.context.untilMs - now(args)),
    abandon: (args) => ABANDON_MS + JITTER_MS * random(args),
  },
});

type Enqueue = EnqueueOf<typeof s>;

function report(enqueue: Enqueue, { key, pod }: Context, state: ObjectState): void {
  enqueue(sendParent({ type: 'object.found', key, uids: [pod.uid], ...state } satisfies ObjectFound));
}

const nameOf = ({ pod, requestName }: Context): string => `${pod.namespace}/${requestName}`;

/** The request as upstream sends it, except for the API version of its owner, which does not exist upstream. */
const requestBody = ({ pod, serviceAccount, accountUid, nodeName, nodeUid, source, made }: Context) => ({
  kind: 'PodCertificateRequest',
  apiVersion: 'certificates.k8s.io/v1beta1',
  metadata: {
    generateName: 'req-',
    namespace: pod.namespace,
    ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: pod.name, uid: pod.uid }],
  },
  spec: {
    signerName: source.signerName,
    podName: pod.name,
    podUID: pod.uid,
    serviceAccountName: serviceAccount,
    serviceAccountUID: accountUid,
    nodeName,
    nodeUID: nodeUid,
    ...(source.maxExpirationSeconds === null ? {} : { maxExpirationSeconds: source.maxExpirationSeconds }),
    stubPKCS10Request: made?.request ?? '',
    ...(Object.keys(source.userAnnotations).length === 0 ? {} : { unverifiedUserAnnotations: source.userAnnotations }),
  },
});

const uidOf = (event: unknown): string => textOf(outputOf<KubeObject>(event).metadata['uid']);

const handleOutcome = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const outcome = outcomeOf(event);
  if (outcome.is !== 'issued' || context.made === null) return;
  const { chain, expiresMs } = outcome;
  const refreshMs = Math.max(now(args) + REFRESH_MIN_MS, outcome.refreshMs + JITTER_MS * random(args));
  const overdueMs = outcome.refreshMs + OVERDUE_MS;
  const { key } = context.made;
  enqueue.assign({ isIssued: true, made: null, failures: 0, refreshMs, overdueMs, expiresMs });
  const data = { key: { text: key }, chain: { text: chain } };
  const { namespace } = context.pod;
  const object = {
    kind: 'PodCertificate',
    namespace,
    name: context.requestName,
    version: versionOf(data),
    data,
  } as const;
  report(enqueue, context, { state: 'found', object });
  enqueue.raise({ type: 'certificate.issued' });
});

const refuse = s.enqueueActions(({ context, event, enqueue }) => {
  const outcome = outcomeOf(event);
  if (outcome.is !== 'Denied' && outcome.is !== 'Failed') return;
  const { is, reason, message } = outcome;
  const refused = podEvents.certificateRefused(is, nameOf(context), reason, message);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(context.ref, refused));
  const text = `PodCertificateRequest was permanently ${is.toLowerCase()}: `;
  const why = `reason=${JSON.stringify(reason)} message=${JSON.stringify(message)}`;
  report(enqueue, context, { state: 'unknown', message: `${text}${why}` });
});

/** A step failed: reports which one, and why. */
const fail = (text: (context: Context, error: string) => string) =>
  s.enqueueActions((args) => {
    const { context, event, enqueue } = args;
    const error = errorIn(event);
    const pause = pauseMs(RETRY, context.failures, random(args));
    const untilMs = now(args) + Math.max(pause, error?.retryAfterMs ?? 0);
    enqueue.assign({ failures: context.failures + 1, untilMs, made: null });
    if (context.isIssued) return;
    const message = `${NOT_ISSUED}: ${text(context, error?.message ?? '')}`;
    report(enqueue, context, { state: 'unknown', message });
  });

const failAt = (doing: string) =>
  ({ target: 'backingOff', actions: fail((_, error) => `${doing}: ${error}`) }) as const;
const failLost = fail((context) => `PodCertificateRequest "${nameOf(context)}" appears to have been deleted`);
const failMalformed = fail((context) => `PodCertificateRequest "${nameOf(context)}" was issued without a certificate`);

const logUnissued = s.enqueueActions(({ context, enqueue }) =>
  report(enqueue, context, { state: 'unknown', message: NOT_ISSUED }),
);

const recordCertificateEvent = (event: 'certificateOverdue' | 'certificateExpired') =>
  s.enqueueActions(({ context, enqueue }) =>
    enqueue.sendTo(to('eventRecorder'), eventRecorded(context.ref, podEvents[event]())),
  );

const noteSeen = s.assign({ isSeen: true });

const outcomes = [
  { guard: 'isDeleted', target: 'backingOff', actions: failLost },
  { guard: 'isRefused', target: 'refused', actions: refuse },
  { guard: 'isMalformed', target: 'backingOff', actions: failMalformed },
  { guard: 'isIssued', target: 'issued', actions: handleOutcome },
  { guard: 'isPending', actions: noteSeen },
] as const;

/** Reads the uids that a request names. */
const lookingUp = {
  gettingAccount: s.createStateConfig({
    meta: { waitsFor: 'the API server to say who the pod’s service account is' },
    invoke: {
      id: 'account',
      src: 'kube.get',
      input: ({ context: { pod, serviceAccount } }) => ({
        client: 'kube',
        apiVersion: 'v1',
        resource: 'serviceaccounts',
        namespace: pod.namespace,
        name: serviceAccount,
      }),
      onDone: { target: 'gettingNode', actions: assign({ accountUid: ({ event }) => uidOf(event) }) },
      onError: failAt('while fetching service account'),
    },
  }),
  gettingNode: s.createStateConfig({
    meta: { waitsFor: 'the API server to say which Node this is' },
    invoke: {
      id: 'node',
      src: 'kube.get',
      input: ({ context }) => ({ client: 'kube', apiVersion: 'v1', resource: 'nodes', name: context.nodeName }),
      onDone: { target: 'makingKey', actions: assign({ nodeUid: ({ event }) => uidOf(event) }) },
      onError: failAt('while getting node object'),
    },
  }),
};

const issuing = s.createStateConfig({
  initial: 'gettingAccount',
  states: {
    ...lookingUp,
    makingKey: {
      meta: { waitsFor: 'a new key' },
      invoke: {
        id: 'key',
        src: 'certificate.podKey',
        input: ({ context }) => ({ keyType: context.source.keyType }),
        onDone: { target: 'requesting', actions: assign({ made: ({ event }) => event.output }) },
        onError: failAt('while generating keypair'),
      },
    },
    requesting: {
      meta: { waitsFor: 'the API server to take the PodCertificateRequest' },
      invoke: {
        id: 'request',
        src: 'kube.create',
        input: ({ context }) => ({
          client: 'kube',
          apiVersion: 'certificates.k8s.io/v1beta1',
          resource: 'podcertificaterequests',
          namespace: context.pod.namespace,
          body: requestBody(context),
        }),
        onDone: {
          target: 'waiting',
          actions: assign({ isSeen: false, requestName: ({ event }) => event.output.metadata.name }),
        },
        onError: failAt('while creating PodCertificateRequest'),
      },
    },
    waiting: {
      meta: { waitsFor: 'the signer to issue the certificate' },
      invoke: {
        id: 'reflector',
        src: 'reflector',
        input: ({ context: { pod, nodeName, requestName } }) => ({
          target: {
            client: 'kube',
            apiVersion: 'certificates.k8s.io/v1beta1',
            resource: 'podcertificaterequests',
            namespace: pod.namespace,
          },
          // A node may watch only requests of its own pods.
          fieldSelector: `metadata.name=${requestName},spec.nodeName=${nodeName}`,
        }),
        onDone: { target: 'backingOff', actions: failLost },
        onError: failAt('while following the PodCertificateRequest'),
      },
      on: { 'reflector.listed': outcomes, 'reflector.changed': outcomes },
      after: {
        [UNISSUED_MS]: { guard: 'isUnissued', actions: logUnissued },
        abandon: { guard: 'isUnseen', target: 'backingOff', actions: failLost },
      },
    },
    /** Waits until the signer's refresh time. */
    issued: { after: { refresh: 'gettingAccount' } },
    backingOff: { after: { retry: 'gettingAccount' } },
    /** The request was refused, for the lifetime of the pod. */
    refused: {},
  },
});

export const podCertificateMachine = s.createMachine({
  id: 'podCertificate',
  context: ({ input }) => ({
    ...input,
    accountUid: '',
    nodeUid: '',
    made: null,
    requestName: '',
    isSeen: false,
    isIssued: false,
    refreshMs: 0,
    overdueMs: 0,
    expiresMs: 0,
    failures: 0,
    untilMs: 0,
  }),
  type: 'parallel',
  states: {
    issuing,
    /** The age of the newest certificate; each overdue certificate is recorded once. */
    age: {
      initial: 'none',
      on: { 'certificate.issued': '.fresh' },
      states: {
        none: {},
        fresh: {
          after: {
            overdue: { target: 'overdue', actions: recordCertificateEvent('certificateOverdue') },
            expiry: { target: 'expired', actions: recordCertificateEvent('certificateExpired') },
          },
        },
        overdue: { after: { expiry: { target: 'expired', actions: recordCertificateEvent('certificateExpired') } } },
        expired: {},
      },
    },
  },
});
