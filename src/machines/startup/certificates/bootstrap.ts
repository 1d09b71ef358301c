/**
 * Bootstrap of the client certificate: requests the first one of a node whose certificates do not rotate.
 *
 * Decides: when the API server is asked, and whether a request of an earlier start is used.
 * Owns: the request in progress.
 * Hears: only the answers of its operations.
 * Asks: `certificate.firstRequest`, `certificate.checkRequest`, `certificate.store`; `kube.checkHealth`; `kube.create`,
 *   `kube.get` and `kube.watch` of a CertificateSigningRequest, with the credentials of the bootstrap kubeconfig.
 * Answers: the facts of the certificate, or upstream's error why there is none.
 * Invariants:
 *   P1 the key is kept until its certificate is on disk, so that each start until then makes the same request, which
 *      has to be approved once.
 *   P2 it waits a minute for an unreachable server; any other failure ends the start.
 * Upstream: pkg/kubelet/certificate/bootstrap/bootstrap.go (LoadClientCert), client-go util/certificate/csr.
 */

import { assign, type Ended, errorOf, line, outputOf, pick, random, setup, typed } from '../../../kernel/xstate.ts';
import {
  type CertificateFacts,
  type CertificateTemplate,
  certificateOperations,
  type FirstRequest,
  temporaryKey,
} from '../../model/operations/certificate.ts';
import { type KubeObject, kubeOperations, type WatchItem } from '../../model/operations/kube.ts';
import type { Answer } from '../context/types.ts';
import { CLIENT_SIGNER, clientPlace, csrObject, csrTarget, READ_AGAIN_MS, verdictOf } from './setup.ts';

export interface BootstrapInput {
  readonly certDir: string;
  readonly template: CertificateTemplate;
}

/** How long the server is waited for, and the pause between two questions; upstream's. */
const SERVER_TIMEOUT_MS = 60_000;
const SERVER_PAUSE_MS = 2_000;
const SERVER_JITTER = 0.2;
/** How long a signature may take, because it may need manual approval; upstream's. */
const ISSUED_TIMEOUT_MS = 3_600_000;
/** A watch is ended after this long, and the request read again. */
const WATCH_SECONDS = 300;

interface Context extends BootstrapInput, FirstRequest {
  /** Of the request in the API server. */
  readonly csr: { readonly uid: string; readonly version: string; readonly request: string };
  readonly issued: string;
  readonly facts: CertificateFacts | null;
  readonly refusal: string;
}

const s = setup({
  types: typed<{
    input: BootstrapInput;
    context: Context;
    events: WatchItem | Ended;
    output: Answer<CertificateFacts>;
  }>(),
  actors: {
    ...pick(certificateOperations, 'certificate.firstRequest', 'certificate.checkRequest', 'certificate.store'),
    ...pick(kubeOperations, 'kube.checkHealth', 'kube.create', 'kube.get', 'kube.watch'),
  },
  guards: {
    isIssued: ({ context }) => context.issued !== '',
    isRefused: ({ context }) => context.refusal !== '',
  },
  delays: { serverPause: (args) => SERVER_PAUSE_MS * (1 + SERVER_JITTER * random(args)) },
});

const target = (name?: string) => csrTarget('bootstrap', name);

const refuse = (prefix = '') => s.assign({ refusal: ({ event }) => `${prefix}${errorOf(event).message}` });

const csrOf = ({ metadata, spec }: KubeObject): Context['csr'] => ({
  uid: typeof metadata['uid'] === 'string' ? metadata['uid'] : '',
  version: metadata.resourceVersion ?? '',
  request: (spec as { readonly request?: string } | undefined)?.request ?? '',
});

const noteCsr = s.assign({ csr: ({ event }) => csrOf(outputOf<KubeObject>(event)) });

const WATCH_FAILED = 'cannot watch on the certificate signing request: ';

/** Judges the request as it was read, or as it changed. */
const judge = s.enqueueActions(({ context, event, enqueue }) => {
  const object = event.type === 'watch.changed' ? event.object : outputOf<KubeObject>(event);
  if (event.type === 'watch.changed' && event.change === 'DELETED') {
    enqueue.assign({ refusal: `${WATCH_FAILED}csr "${context.name}" was deleted` });
    return;
  }
  const verdict = verdictOf(object, context.csr.uid);
  if (verdict.state === 'refused') enqueue.assign({ refusal: `${WATCH_FAILED}${verdict.message}` });
  if (verdict.state === 'approved') {
    enqueue(line('info', ['Certificate signing request is approved, waiting to be issued', { csr: context.name }]));
  }
  if (verdict.state === 'issued') {
    enqueue(line('info', ['Certificate signing request is issued', { csr: context.name }]));
  }
  enqueue.assign({
    csr: { ...context.csr, version: object.metadata.resourceVersion ?? context.csr.version },
    issued: verdict.state === 'issued' ? verdict.certificate : '',
  });
});

const awaitingServer = s.createStateConfig({
  meta: { waitsFor: 'the API server to answer' },
  initial: 'asking',
  after: {
    [SERVER_TIMEOUT_MS]: {
      target: 'creating',
      actions: line('info', [
        'Error waiting for apiserver to come up',
        { err: 'timed out waiting to connect to apiserver' },
      ]),
    },
  },
  states: {
    asking: {
      invoke: {
        id: 'checkHealth',
        src: 'kube.checkHealth',
        input: { client: 'bootstrap' },
        onDone: '#bootstrap.creating',
        onError: {
          target: 'pausing',
          actions: line('info', ({ event }) => ['Failed to connect to apiserver', { err: errorOf(event).message }]),
        },
      },
    },
    pausing: { after: { serverPause: 'asking' } },
  },
});

const awaitingSignature = s.createStateConfig({
  meta: { waitsFor: 'the certificate signing request to be approved and signed' },
  entry: line('info', 'Waiting for client certificate to be issued'),
  initial: 'reading',
  always: [
    { guard: 'isRefused', target: 'refused' },
    { guard: 'isIssued', target: 'storing' },
  ],
  after: {
    [ISSUED_TIMEOUT_MS]: {
      target: 'refused',
      actions: assign({ refusal: 'timed out waiting for the condition' }),
    },
  },
  states: {
    reading: {
      invoke: {
        id: 'read',
        src: 'kube.get',
        input: ({ context }) => target(context.name),
        onDone: { target: 'watching', actions: judge },
        onError: [
          {
            guard: ({ event }) => errorOf(event).code === 'NotFound',
            target: '#bootstrap.refused',
            actions: assign({ refusal: ({ context }) => `${WATCH_FAILED}csr "${context.name}" was deleted` }),
          },
          { target: 'pausing' },
        ],
      },
    },
    watching: {
      invoke: {
        id: 'watch',
        src: 'kube.watch',
        input: ({ context }) => ({
          ...target(),
          fieldSelector: `metadata.name=${context.name}`,
          resourceVersion: context.csr.version,
          timeoutSeconds: WATCH_SECONDS,
        }),
        onDone: 'pausing',
        onError: 'pausing',
      },
      on: { 'watch.changed': { actions: judge } },
    },
    pausing: { after: { [READ_AGAIN_MS]: 'reading' } },
  },
});

export const bootstrapMachine = s.createMachine({
  id: 'bootstrap',
  context: ({ input }) => ({
    ...input,
    name: '',
    request: '',
    usages: [],
    key: { $secret: '', len: 0 },
    csr: { uid: '', version: '', request: '' },
    issued: '',
    facts: null,
    refusal: '',
  }),
  initial: 'creatingKey',
  states: {
    creatingKey: {
      invoke: {
        id: 'firstRequest',
        src: 'certificate.firstRequest',
        input: ({ context: { certDir, template } }) => ({ place: clientPlace(certDir), template }),
        onDone: { target: 'awaitingServer', actions: assign(({ event }) => event.output) },
        onError: { target: 'refused', actions: refuse() },
      },
    },
    awaitingServer,
    creating: {
      invoke: {
        id: 'create',
        src: 'kube.create',
        input: ({ context: { name, request, usages } }) => ({
          ...target(),
          body: csrObject(CLIENT_SIGNER, request, usages, { name }),
        }),
        onDone: {
          target: 'awaitingSignature',
          actions: [
            noteCsr,
            line('info', ({ context }) => ['Certificate signing request created', { csr: context.name }]),
          ],
        },
        onError: [
          {
            guard: ({ event }) => errorOf(event).code === 'AlreadyExists',
            target: 'reusing',
            actions: line('info', 'csr for this node already exists, reusing'),
          },
          { target: 'refused', actions: refuse('cannot create certificate signing request: ') },
        ],
      },
    },
    reusing: {
      invoke: {
        id: 'retrieve',
        src: 'kube.get',
        input: ({ context }) => target(context.name),
        onDone: { target: 'comparing', actions: noteCsr },
        onError: { target: 'refused', actions: refuse('cannot retrieve certificate signing request: ') },
      },
    },
    comparing: {
      invoke: {
        id: 'checkRequest',
        src: 'certificate.checkRequest',
        input: ({ context: { request, csr } }) => ({ request, found: csr.request }),
        onDone: [
          {
            guard: ({ event }) => event.output.problem === '',
            target: 'awaitingSignature',
            actions: line('info', 'csr for this node is still valid'),
          },
          {
            target: 'refused',
            actions: assign({ refusal: ({ event }) => `retrieved csr is not compatible: ${event.output.problem}` }),
          },
        ],
        onError: { target: 'refused', actions: refuse('retrieved csr is not compatible: ') },
      },
    },
    awaitingSignature,
    storing: {
      invoke: {
        id: 'store',
        src: 'certificate.store',
        input: ({ context: { certDir, issued, key } }) => ({
          ...clientPlace(certDir),
          certificate: issued,
          key,
          keyFile: temporaryKey(certDir),
        }),
        onDone: { target: 'stored', actions: assign({ facts: ({ event }) => event.output }) },
        onError: { target: 'refused', actions: refuse() },
      },
    },
    stored: { type: 'final' },
    refused: { type: 'final' },
  },
  output: ({ context: { facts, refusal } }) =>
    facts === null ? { ok: false, message: refusal } : { ok: true, value: facts },
});
