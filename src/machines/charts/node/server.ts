/**
 * A server of the node's own API: the kubelet's port, or the read-only one.
 *
 * Decides: whether the node has to sign its own certificate first; that a port which cannot be opened ends the node,
 *   and one whose server was lost is reopened.
 * Owns: one listening port.
 * Hears: `server.*` of its port.
 * Asks: `server.selfSign`, `server.serve`.
 * Sends: the supervisor `server.serving` and `server.failed`.
 * Invariants:
 *   V1 nothing is served before there is a certificate, or one was requested.
 *   V2 a changed but unusable file is reported, and the last good one stays in use.
 * Seeds: S065, S187, S210 to S212. Upstream: pkg/kubelet/server/server.go.
 */
import { assign, errorOf, line, pick, required, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { http2Refusal } from '../../model/configuration/tls-options.ts';
import {
  isThreadLost,
  REOPEN_MS,
  type ServedPort,
  type ServerItem,
  serverOperations,
} from '../../model/operations/server.ts';

export interface ServerInput {
  readonly served: ServedPort;
  /** For a self-signed certificate; `null` if one is configured, will be issued, or is not needed. */
  readonly selfSign: { readonly directory: string; readonly hostname: string } | null;
}

interface Context extends ServerInput {
  readonly failure: string;
}

const refusalOf = ({ secure }: ServedPort): string =>
  secure === null ? '' : http2Refusal(secure.tls.cipherSuites, secure.tls.minVersion);

const s = setup({
  types: typed<{ input: ServerInput; context: Context; events: ServerItem }>(),
  actors: pick(serverOperations, 'server.selfSign', 'server.serve'),
  guards: { isRefused: ({ context }) => context.failure !== '', mustSign: ({ context }) => context.selfSign !== null },
});

export const serverMachine = s.createMachine({
  id: 'server',
  context: ({ input }) => ({ ...input, failure: refusalOf(input.served) }),
  initial: 'choosingCertificate',
  states: {
    choosingCertificate: {
      always: [{ guard: 'isRefused', target: 'failed' }, { guard: 'mustSign', target: 'signing' }, { target: 'open' }],
    },
    signing: {
      meta: { waitsFor: 'a certificate of its own' },
      invoke: {
        id: 'sign',
        src: 'server.selfSign',
        input: ({ context }) => required(context.selfSign, 'where the certificate goes'),
        onDone: 'open',
        onError: {
          target: 'failed',
          actions: assign({
            failure: ({ event }) => `unable to generate self signed cert: ${errorOf(event).message}`,
          }),
        },
      },
    },
    open: {
      entry: line('info', ({ context: { served } }) => [
        served.secure ? 'Starting to listen' : 'Starting to listen read-only',
        { address: served.address, port: served.port },
      ]),
      invoke: {
        id: 'serve',
        src: 'server.serve',
        input: ({ context }) => context.served,
        onDone: 'failed',
        onError: [
          {
            guard: ({ event }) => isThreadLost(errorOf(event)),
            target: 'lost',
            actions: line('error', ({ context: { served }, event }) => [
              'A server was lost, and opens its port anew',
              { address: served.address, port: served.port, err: errorOf(event).message },
            ]),
          },
          { target: 'failed', actions: assign({ failure: ({ event }) => errorOf(event).message }) },
        ],
      },
      initial: 'listening',
      on: {
        'server.certificateChanged': {
          actions: line('info', ({ event: { type: _type, ...certificate } }) => [
            'The serving certificate changed',
            certificate,
          ]),
        },
        'server.clientCAChanged': { actions: line('info', 'The authorities of clients changed') },
        'server.reloadFailed': {
          actions: line('error', ({ event }) => [
            'Cannot use a certificate file that changed; what was in force stays',
            { err: event.message },
          ]),
        },
      },
      states: {
        listening: {
          meta: { waitsFor: 'the port' },
          on: {
            'server.listening': {
              target: 'serving',
              actions: sendParent(({ context, event }) => ({
                type: 'server.serving',
                address: event.address,
                port: event.port,
                isReadOnly: context.served.secure === null,
              })),
            },
          },
        },
        serving: {},
      },
    },
    lost: { after: { [REOPEN_MS]: 'open' } },
    failed: { entry: sendParent(({ context }) => ({ type: 'server.failed', message: context.failure })) },
  },
});
