/**
 * Client builder: the three clients of the API server, or none.
 *
 * Decides: standalone (no `--kubeconfig`: KubeClient, EventClient and HeartbeatClient are all absent) or cluster; in a
 *   cluster, the credentials of the clients, and whether a certificate must be requested first.
 * Owns: nothing after it has answered.
 * Hears: only the answers of its operations.
 * Asks: `kube.connect`, `certificate.checkKubeconfig`, `certificate.writeKubeconfig`; without rotation
 *   `bootstrap` requests the first certificate; before `bootstrapAsKubelet`, `clientCertificate` (the manager) did.
 * Answers: the mode, or upstream's error why there are no clients.
 * Invariants:
 *   B1 an empty `--kubeconfig` never touches the network.
 *   B2 no client is connected before its kubeconfig was read completely; nothing is sent while starting, except by a
 *      bootstrap without rotation, which needs the answer to continue.
 * Seeds: S052, S056 to S063. Upstream: cmd/kubelet/app/server.go, pkg/kubelet/certificate/bootstrap.
 */

import { assign, errorOf, line, outputOf, pick, setup, typed } from '../../../kernel/xstate.ts';
import { certificateOperations, currentPair } from '../../model/operations/certificate.ts';
import { CLIENT_REFUSED, type KubeSettings, kubeOperations } from '../../model/operations/kube.ts';
import { bootstrapMachine } from '../certificates/bootstrap.ts';
import { certificateManagerMachine } from '../certificates/certificate-manager.ts';
import { type CertificateManagerInput, CLIENT_SIGNER, clientPlace, nodeTemplate } from '../certificates/setup.ts';
import type { Answer, KubeClients } from '../context/types.ts';

export interface ClientBuilderInput {
  readonly kubeconfig: string;
  readonly bootstrapKubeconfig: string;
  readonly certDir: string;
  readonly rotateCertificates: boolean;
  readonly nodeName: string;
  readonly userAgent: string;
  /** From the configuration: see `KubeSettings`. */
  readonly kubeAPIQPS: number;
  readonly kubeAPIBurst: number;
  readonly eventRecordQPS: number;
  readonly eventBurst: number;
  readonly nodeStatusUpdateFrequencyMs: number;
  readonly nodeLeaseDurationSeconds: number;
  /** A bootstrap without rotation goes on with the request of an earlier start. */
  readonly bootstrapsAsKubelet?: true;
}

interface ClientBuilderContext extends ClientBuilderInput {
  readonly server: string;
  /** The kubeconfig was written for a certificate that does not exist yet. */
  readonly isBootstrapping: boolean;
  readonly refusal: string;
}

const SECOND_MS = 1_000;

const isStandalone = ({ kubeconfig }: Pick<ClientBuilderInput, 'kubeconfig'>): boolean => kubeconfig === '';

/** The settings of the clients of a role; see the rows S059 to S062. */
export function kubeSettings(context: ClientBuilderContext, role: KubeSettings['role']): KubeSettings {
  const { kubeconfig, bootstrapKubeconfig, isBootstrapping, rotateCertificates } = context;
  const place = clientPlace(context.certDir);
  return {
    kubeconfig: role === 'bootstrap' && isBootstrapping ? bootstrapKubeconfig : kubeconfig,
    role,
    qps: context.kubeAPIQPS,
    burst: context.kubeAPIBurst,
    eventQps: context.eventRecordQPS,
    eventBurst: context.eventBurst,
    heartbeatTimeoutMs: Math.min(context.nodeStatusUpdateFrequencyMs, context.nodeLeaseDurationSeconds * SECOND_MS),
    userAgent: context.userAgent,
    certificateFile: role === 'node' && rotateCertificates ? currentPair(place) : null,
    isBootstrapping: role === 'node' && isBootstrapping && rotateCertificates,
  };
}

/** The input of the manager of the client certificate, which requests it once or keeps it valid. */
export const clientCertificateInput = (
  { certDir, nodeName }: Pick<ClientBuilderInput, 'certDir' | 'nodeName'>,
  once: boolean,
  further: Pick<CertificateManagerInput, 'isNoneWhenExpired'> = {},
): CertificateManagerInput => ({
  purpose: 'client',
  once,
  signerName: CLIENT_SIGNER,
  place: clientPlace(certDir),
  certFile: '',
  keyFile: '',
  template: nodeTemplate(nodeName, { dnsNames: [], ipAddresses: [] }),
  ...further,
});

const s = setup({
  types: typed<{ input: ClientBuilderInput; context: ClientBuilderContext; output: Answer<KubeClients> }>(),
  actors: {
    ...pick(kubeOperations, 'kube.connect'),
    ...pick(certificateOperations, 'certificate.checkKubeconfig', 'certificate.writeKubeconfig'),
    clientCertificate: certificateManagerMachine,
    bootstrap: bootstrapMachine,
  },
  guards: {
    isStandalone: ({ context }) => isStandalone(context),
    hasBootstrap: ({ context }) => context.bootstrapKubeconfig !== '',
    rotates: ({ context }) => context.rotateCertificates,
    isRefused: ({ context }) => context.refusal !== '',
  },
});

/** Upstream's error, which has a prefix if it is about the file of a kubeconfig. */
const refuse = (prefix: string) =>
  s.assign({
    refusal: ({ event }) => {
      const { code, message } = errorOf(event);
      return code === CLIENT_REFUSED ? message : `${prefix}${message}`;
    },
  });

const noteRefusal = s.assign({
  refusal: ({ event }) => {
    const answer = outputOf<Answer<unknown>>(event);
    return answer.ok ? '' : answer.message;
  },
});

const BOOTSTRAPPING = 'Using bootstrap kubeconfig to generate TLS client cert, key and kubeconfig file';

const validText = ({ rotateCertificates, kubeconfig }: ClientBuilderContext): string | [string, { path: string }] =>
  rotateCertificates
    ? 'Current kubeconfig file contents are still valid, no bootstrap necessary'
    : ['Kubeconfig exists and is valid, skipping bootstrap', { path: kubeconfig }];

const logProblem = s.enqueueActions(({ event, enqueue }) => {
  const { problem } = outputOf<{ problem: string }>(event);
  if (problem !== '') enqueue(line('error', ['Unhandled Error', { err: problem }]));
});

export const clientBuilderMachine = s.createMachine({
  id: 'clientBuilder',
  context: ({ input }) => ({ ...input, server: '', isBootstrapping: false, refusal: '' }),
  initial: 'detectingMode',
  states: {
    detectingMode: {
      always: [
        { guard: 'isStandalone', target: 'standalone' },
        {
          guard: 'rotates',
          target: 'choosing',
          actions: line('info', 'Client rotation is on, will bootstrap in background'),
        },
        { target: 'choosing' },
      ],
    },
    standalone: { type: 'final', entry: line('warn', 'Standalone mode, no API client') },
    choosing: {
      always: [
        { guard: 'hasBootstrap', target: 'checkingKubeconfig' },
        {
          guard: 'rotates',
          target: 'connecting',
          actions: line('info', 'No bootstrapping requested, will use kubeconfig'),
        },
        { target: 'connecting' },
      ],
    },
    checkingKubeconfig: {
      meta: { waitsFor: 'the kubeconfig to be judged' },
      invoke: {
        id: 'checkKubeconfig',
        src: 'certificate.checkKubeconfig',
        input: ({ context }) => ({ kubeconfig: context.kubeconfig }),
        onDone: [
          {
            guard: ({ event }) => event.output.isValid,
            target: 'connecting',
            actions: line('info', ({ context }) => validText(context)),
          },
          {
            target: 'connectingBootstrap',
            actions: [assign({ isBootstrapping: true }), logProblem],
          },
        ],
        onError: { target: 'refused', actions: refuse('') },
      },
    },
    connectingBootstrap: {
      invoke: {
        id: 'connectBootstrap',
        src: 'kube.connect',
        input: ({ context }) => kubeSettings(context, 'bootstrap'),
        onDone: [
          { guard: 'rotates', target: 'writingKubeconfig' },
          { guard: ({ context }) => context.bootstrapsAsKubelet === true, target: 'requesting' },
          { target: 'bootstrapping' },
        ],
        onError: { target: 'refused', actions: refuse('unable to load bootstrap kubeconfig: ') },
      },
    },
    requesting: {
      meta: { waitsFor: 'the cluster to sign the first client certificate' },
      entry: line('info', BOOTSTRAPPING),
      invoke: {
        id: 'bootstrap',
        src: 'bootstrap',
        input: ({ context }) => {
          const { certDir, nodeName } = context;
          return { certDir, template: nodeTemplate(nodeName, { dnsNames: [], ipAddresses: [] }) };
        },
        onDone: [
          { guard: ({ event }) => event.output.ok, target: 'writingKubeconfig' },
          { target: 'refused', actions: noteRefusal },
        ],
        onError: { target: 'refused', actions: refuse('') },
      },
    },
    bootstrapping: {
      meta: { waitsFor: 'the cluster to sign the first client certificate' },
      entry: line('info', BOOTSTRAPPING),
      invoke: {
        id: 'clientCertificate',
        src: 'clientCertificate',
        input: ({ context }) => clientCertificateInput(context, true),
        onDone: [
          { guard: ({ event }) => event.output.ok, target: 'writingKubeconfig' },
          { target: 'refused', actions: noteRefusal },
        ],
        onError: { target: 'refused', actions: refuse('') },
      },
    },
    writingKubeconfig: {
      invoke: {
        id: 'writeKubeconfig',
        src: 'certificate.writeKubeconfig',
        input: ({ context: { bootstrapKubeconfig, kubeconfig, certDir } }) => ({
          bootstrapKubeconfig,
          kubeconfig,
          place: clientPlace(certDir),
        }),
        onDone: [
          {
            guard: 'rotates',
            target: 'connecting',
            actions: line(
              'info',
              'Use the bootstrap credentials to request a cert, and set kubeconfig to point to the certificate dir',
            ),
          },
          { target: 'connecting' },
        ],
        onError: { target: 'refused', actions: refuse('') },
      },
    },
    connecting: {
      meta: { waitsFor: 'the kubeconfig to be read' },
      invoke: {
        id: 'connect',
        src: 'kube.connect',
        input: ({ context }) => kubeSettings(context, 'node'),
        onDone: [
          {
            guard: ({ context }) => context.rotateCertificates && !context.isBootstrapping,
            target: 'connectingRequests',
            actions: assign({ server: ({ event }) => event.output.server }),
          },
          { target: 'connected', actions: assign({ server: ({ event }) => event.output.server }) },
        ],
        onError: [
          { guard: 'rotates', target: 'refused', actions: refuse('unable to load kubeconfig: ') },
          { target: 'refused', actions: refuse('invalid kubeconfig: ') },
        ],
      },
    },
    /** Without a valid certificate, one is requested with the kubeconfig's own credentials. */
    connectingRequests: {
      invoke: {
        id: 'connectRequests',
        src: 'kube.connect',
        input: ({ context }) => kubeSettings(context, 'bootstrap'),
        onDone: 'connected',
        onError: { target: 'refused', actions: refuse('unable to load kubeconfig: ') },
      },
    },
    connected: { type: 'final' },
    refused: { type: 'final' },
  },
  output: ({ context }) => answerOf(context),
});

function answerOf(context: ClientBuilderContext): Answer<KubeClients> {
  if (context.refusal !== '') return { ok: false, message: context.refusal };
  if (isStandalone(context)) return { ok: true, value: { mode: 'standalone' } };
  return { ok: true, value: { mode: 'cluster', server: context.server, rotates: context.rotateCertificates } };
}
