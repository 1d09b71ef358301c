/**
 * Certificate manager: keeps one certificate of this node valid by requesting the next one from the cluster in time.
 *
 * Decides: when the certificate is replaced, how long it waits for a signature, when it requests again, and when a node
 *   without a valid client certificate has to end.
 * Owns: the current certificate (its facts), the request in progress.
 * Hears: `certificate.namesChanged` with the names of a serving certificate.
 * Asks: `certificate.load`, `certificate.request`, `certificate.store`; `kube.create`, `kube.get` and `kube.watch` of a
 *   CertificateSigningRequest; `kube.closeConnections` after the client certificate was replaced.
 * Sends: its parent `certificate.loaded` when it has read the disk, `certificate.failed` when the pair there is
 *   invalid, `certificate.lost` when the node has to end.
 * Answers: its facts if only one certificate was requested, or why there is none.
 * Invariants:
 *   T1 a key is used for one request only, and never leaves the ports.
 *   T2 the current certificate changes only when the next one is on disk.
 *   T3 no serving certificate is requested without an address (with a gate, a name is sufficient).
 *   T4 a node ends for lack of a certificate only while the server is known to answer: an unreachable server needs no
 *      restart.
 *   T5 a request for names that the node no longer has is abandoned.
 * Upstream: client-go util/certificate/certificate_manager.go, pkg/kubelet/certificate.
 */

import { assign, errorOf, line, now, required, sendParent } from '../../../kernel/xstate.ts';
import type { CertificateFacts, CertificatePurpose } from '../../model/operations/certificate.ts';
import type { Answer, CertificateReport } from '../context/types.ts';
import {
  type Context,
  csrObject,
  csrOf,
  failed,
  handleNames,
  handleVerdict,
  isRefusing,
  logCertificateProblem,
  logLine,
  managerSetup,
  noteCertificateInUse,
  noteServerHealth,
  notSigned,
  READ_AGAIN_MS,
  readClock,
  refusing,
  SIGNED_TIMEOUT_MS,
  setDeadline,
  storeRequest,
  usagesOf,
  validUntil,
  verdictOf,
} from './setup.ts';

/** The pause between a certificate and the next request, as upstream. */
const REQUEST_PAUSE_MS = 1_000;

/** With upstream's texts for a timeout and for changed names. */
const waitEnded = notSigned(
  () => 'cannot watch on the certificate signing request: timed out waiting for the condition',
);

/** Reads the request, then watches it from there. */
const awaitingSignature = managerSetup.createStateConfig({
  meta: { waitsFor: 'the certificate signing request to be approved and signed' },
  initial: 'reading',
  always: { guard: 'asksForOther', target: 'backingOff', actions: waitEnded },
  after: { [SIGNED_TIMEOUT_MS]: { target: 'backingOff', actions: waitEnded } },
  states: {
    reading: {
      invoke: {
        id: 'read',
        src: 'kube.get',
        input: (args) => csrOf(args, args.context.csrName),
        onDone: [
          { guard: isRefusing, target: '#certificateManager.working.rotation.backingOff', actions: refusing },
          { target: 'judging', actions: handleVerdict },
        ],
        onError: [
          {
            guard: ({ event }) => errorOf(event).code === 'NotFound',
            target: '#certificateManager.working.rotation.backingOff',
            actions: notSigned(({ context }) => `csr "${context.csrName}" was deleted`),
          },
          { target: 'pausing' },
        ],
      },
    },
    judging: {
      always: [{ guard: 'isIssued', target: '#certificateManager.working.rotation.storing' }, { target: 'watching' }],
    },
    watching: {
      invoke: {
        id: 'watch',
        src: 'kube.watch',
        input: (args) => ({
          ...csrOf(args),
          fieldSelector: `metadata.name=${args.context.csrName}`,
          resourceVersion: args.context.csrVersion,
          timeoutSeconds: SIGNED_TIMEOUT_MS / 1_000,
        }),
        onDone: 'pausing',
        onError: 'pausing',
      },
      on: {
        'watch.changed': [
          {
            guard: ({ event }) => event.change === 'DELETED',
            target: '#certificateManager.working.rotation.backingOff',
            actions: notSigned(({ context }) => `csr "${context.csrName}" was deleted`),
          },
          { guard: isRefusing, target: '#certificateManager.working.rotation.backingOff', actions: refusing },
          {
            guard: ({ context, event }) => verdictOf(event.object, context.csrUid).state === 'issued',
            target: '#certificateManager.working.rotation.storing',
            actions: handleVerdict,
          },
          { actions: handleVerdict },
        ],
      },
    },
    pausing: { after: { [READ_AGAIN_MS]: 'reading' } },
  },
});

const isLoaded = (purpose: CertificatePurpose): CertificateReport => ({ type: 'certificate.loaded', purpose });

const rotation = managerSetup.createStateConfig({
  initial: 'loading',
  on: { 'certificate.namesChanged': { actions: handleNames } },
  states: {
    loading: {
      invoke: {
        id: 'load',
        src: 'certificate.load',
        input: ({ context: { place, certFile, keyFile } }) => ({ ...place, certFile, keyFile }),
        onDone: [
          {
            guard: ({ context, event }) => context.once || event.output.certificate === null,
            target: 'deciding',
            actions: sendParent(({ context }) => isLoaded(context.purpose)),
          },
          {
            target: 'deciding',
            actions: [
              sendParent(({ context }) => isLoaded(context.purpose)),
              logLine('Loading cert/key pair from a file'),
              assign(({ context, event }) => ({
                certificate: event.output.certificate,
                validUntilMs: validUntil(context, event.output.certificate?.notAfterMs ?? 0),
              })),
            ],
          },
        ],
        onError: {
          target: 'unusable',
          actions: [
            assign({ refusal: ({ event }) => errorOf(event).message }),
            sendParent(
              ({ context, event }) =>
                ({
                  type: 'certificate.failed',
                  purpose: context.purpose,
                  message: `${failureOf(context.purpose)}: ${errorOf(event).message}`,
                }) satisfies CertificateReport,
            ),
          ],
        },
      },
    },
    deciding: {
      always: [
        { guard: 'lacksNames', target: 'awaitingNames' },
        { guard: 'lacksCertificate', target: 'generating', actions: logCertificateProblem },
        { target: 'waiting' },
      ],
    },
    awaitingNames: {
      meta: { waitsFor: 'the addresses of this node' },
      on: { 'certificate.namesChanged': { target: 'deciding', actions: handleNames } },
    },
    waiting: {
      meta: { waitsFor: 'the certificate to near its end' },
      initial: 'determining',
      states: {
        determining: { entry: setDeadline, always: 'sleeping' },
        sleeping: { after: { untilDeadline: 'checking' } },
        checking: {
          entry: readClock,
          always: [
            { guard: 'isDue', target: '#certificateManager.working.rotation.generating' },
            { target: 'sleeping' },
          ],
        },
      },
      on: { 'certificate.namesChanged': { target: 'deciding', actions: handleNames } },
    },
    generating: {
      entry: [logLine('Rotating certificates'), assign({ requested: ({ context }) => context.template })],
      invoke: {
        id: 'generate',
        src: 'certificate.request',
        input: ({ context }) => context.template,
        onDone: {
          target: 'creating',
          actions: assign({ key: ({ event }) => event.output.key, request: ({ event }) => event.output.request }),
        },
        onError: { target: 'backingOff', actions: failed('Unable to generate a certificate signing request') },
      },
    },
    creating: {
      invoke: {
        id: 'create',
        src: 'kube.create',
        input: (args) => {
          const { signerName, request, purpose } = args.context;
          return { ...csrOf(args), body: csrObject(signerName, request, usagesOf(purpose)) };
        },
        onDone: {
          target: 'awaitingSignature',
          actions: [storeRequest, logLine('Certificate signing request created', ({ csrName }) => ({ csr: csrName }))],
        },
        onError: {
          target: 'backingOff',
          actions: [
            failed(
              'Failed while requesting a signed certificate from the control plane',
              'cannot create certificate signing request: ',
            ),
            noteServerHealth,
          ],
        },
      },
    },
    awaitingSignature,
    storing: {
      invoke: {
        id: 'store',
        src: 'certificate.store',
        input: ({ context: { place, issued, key } }) => ({
          ...place,
          certificate: issued,
          key: required(key, 'the key of the certificate'),
        }),
        onDone: [
          { guard: 'isOnce', target: '#certificateManager.ended', actions: noteCertificateInUse },
          { guard: 'isClient', target: 'reconnecting', actions: noteCertificateInUse },
          { target: 'resting', actions: noteCertificateInUse },
        ],
        onError: { target: 'backingOff', actions: failed('Unable to store the new cert/key pair') },
      },
    },
    reconnecting: {
      entry: line(
        'info',
        'Certificate rotation detected, shutting down client connections to start using new credentials',
      ),
      invoke: { id: 'reconnect', src: 'kube.closeConnections', input: {}, onDone: 'resting', onError: 'resting' },
    },
    /** A signer that left out requested names is not asked again at once. */
    resting: { after: { [REQUEST_PAUSE_MS]: 'deciding' } },
    backingOff: {
      meta: { waitsFor: 'the next try' },
      always: { guard: 'isRefused', target: '#certificateManager.ended' },
      after: { backoff: [{ guard: 'lacksNames', target: 'awaitingNames' }, { target: 'generating' }] },
    },
    unusable: { always: { guard: 'isOnce', target: '#certificateManager.ended' } },
  },
});

/** Upstream's text for an invalid pair on disk. */
const failureOf = (purpose: CertificatePurpose): string =>
  purpose === 'client'
    ? 'failed to initialize client certificate manager'
    : 'failed to create kubelet: failed to initialize certificate manager: failed to initialize server certificate manager';

const RESTART = 'A restart may be necessary to retrieve new initial credentials.';
const NONE = 'No valid client certificate is found';
type Loss = Pick<Context, 'certificate' | 'isNoneWhenExpired'>;
const lossMessage = ({ certificate, isNoneWhenExpired }: Loss): string =>
  certificate === null || isNoneWhenExpired === true ? NONE : 'The currently active client certificate has expired';
const unansweredMessage = (context: Loss): string =>
  `${lossMessage(context)}${context.isNoneWhenExpired ? '' : ','} but the server is not responsive. ${RESTART}`;

/** How long a node runs without a valid client certificate. */
const guarding = managerSetup.createStateConfig({
  initial: 'choosing',
  states: {
    choosing: { always: [{ guard: 'isGuarded', target: 'valid' }, { target: 'notGuarded' }] },
    notGuarded: {},
    valid: { after: { untilLost: 'checking' } },
    checking: { entry: readClock, always: [{ guard: 'isLost', target: 'lost' }, { target: 'valid' }] },
    lost: {
      entry: line('error', ({ context }) => unansweredMessage(context)),
      always: [
        { guard: 'isValidAgain', target: 'valid' },
        { guard: 'isServerHealthy', target: 'ending' },
      ],
    },
    ending: {
      entry: sendParent(
        ({ context }) =>
          ({
            type: 'certificate.lost',
            message: `${lossMessage(context)} and the server is responsive, exiting.`,
          }) satisfies CertificateReport,
      ),
    },
  },
});

export const certificateManagerMachine = managerSetup.createMachine({
  id: 'certificateManager',
  context: (args) => ({
    ...args.input,
    certificate: null,
    deadlineMs: 0,
    attempts: 0,
    requested: null,
    key: null,
    request: '',
    csrName: '',
    csrUid: '',
    csrVersion: '',
    issued: '',
    refusal: '',
    isServerHealthy: false,
    validUntilMs: now({ system: args.self.system }),
    nowMs: 0,
  }),
  initial: 'working',
  states: {
    working: { type: 'parallel', states: { rotation, guarding } },
    /** Used only if one certificate was requested. */
    ended: { type: 'final' },
  },
  output: ({ context }) => answerOf(context),
});

function answerOf({
  certificate,
  refusal,
}: {
  certificate: CertificateFacts | null;
  refusal: string;
}): Answer<CertificateFacts> {
  if (certificate !== null && refusal === '') return { ok: true, value: certificate };
  return { ok: false, message: refusal };
}
