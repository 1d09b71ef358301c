/**
 * The command: from the arguments to a configuration, as in `NewKubeletCommand`, before anything is touched.
 *
 * Steps: S006 to S031. The supervisor waits for the config loader's answer, checks whether its self-signed certificate
 * exists with its key, and logs its version.
 */
import { assign, enqueueActions, line } from '../../kernel/xstate.ts';
import { toMasked } from '../configuration/fields/decode.ts';
import { tlsPairError, tlsWarnings } from '../model/configuration/tls-options.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import type { LoadedConfiguration } from './configuration/config-loader.ts';
import { failing, kubeletSetup, warning } from './setup.ts';

/** Upstream's verbosity for logging the whole configuration. */
const DUMP_VERBOSITY = 5;

/** Whether the kubelet's own cgroup is outside the one reserved for it; upstream only warns. */
function isOutsideReserved(kubeletCgroups: string, kubeReservedCgroup: string): boolean {
  return kubeletCgroups !== '' && kubeReservedCgroup !== '' && !kubeletCgroups.startsWith(kubeReservedCgroup);
}

/** Gates are read from the configuration where they matter; the supervisor keeps the rest. */
const withoutGates = ({ gates: _gates, ...loaded }: LoadedConfiguration) => loaded;

export const command = kubeletSetup.createStateConfig({
  initial: 'loadingConfiguration',
  states: {
    loadingConfiguration: {
      meta: { steps: 'S006-S025', waitsFor: 'flags, configuration file and drop-ins' },
      invoke: {
        id: 'configLoader',
        src: 'configLoader',
        input: ({ context }) => ({ argv: context.input.argv, version: context.input.version }),
        onDone: [
          {
            guard: ({ event }) => event.output.ok,
            target: 'choosingCertificate',
            actions: assign(({ event }) => (event.output.ok ? withoutGates(event.output.value) : {})),
          },
          {
            target: '#kubelet.failed',
            actions: assign({
              failure: ({ event }) => {
                if (event.output.ok) return null;
                const { message, exitCode, lines } = event.output;
                return { phase: 'command.loadingConfiguration', message, exitCode, lines };
              },
            }),
          },
        ],
        onError: failing('command.loadingConfiguration'),
      },
    },
    choosingCertificate: {
      meta: { steps: 'S026' },
      entry: enqueueActions(({ context, enqueue }) => {
        if (hasBehavior(context.input, 'configurationAsKubelet')) enqueue.raise({ type: 'create.logging' });
      }),
      always: [
        { guard: ({ context }) => context.ownsCertificate, target: 'initializingTLS' },
        { target: 'checkingPermissions' },
      ],
    },
    initializingTLS: {
      meta: { steps: 'S026', waitsFor: 'the check of the certificate of its own' },
      invoke: {
        id: 'certificateFiles',
        src: 'host.readable',
        input: ({ context }) => ({ paths: [context.config.tlsCertFile, context.config.tlsPrivateKeyFile] }),
        onDone: [
          { guard: ({ event }) => new Set(event.output.readable).size === 1, target: 'checkingPermissions' },
          {
            target: '#kubelet.failed',
            actions: assign({
              failure: ({ context, event }) => {
                const { tlsCertFile, tlsPrivateKeyFile } = context.config;
                const missing = event.output.readable[0] ? tlsPrivateKeyFile : tlsCertFile;
                const message = `failed to construct kubelet dependencies: ${tlsPairError(missing)}`;
                return { phase: 'command.initializingTLS', message, exitCode: 1 };
              },
            }),
          },
        ],
        onError: failing('command.initializingTLS'),
      },
    },
    checkingPermissions: {
      meta: { steps: 'S023, S028', waitsFor: 'the user id of this process' },
      entry: enqueueActions(({ context: { config }, enqueue }) => {
        if (config.logging.verbosity >= DUMP_VERBOSITY) {
          enqueue(line('debug', ['KubeletConfiguration', { configuration: toMasked(config) }]));
        }
        if (isOutsideReserved(config.kubeletCgroups ?? '', config.kubeReservedCgroup ?? '')) {
          enqueue(line('info', 'unsupported configuration:KubeletCgroups is not within KubeReservedCgroup'));
        }
      }),
      invoke: {
        id: 'permissions',
        src: 'host.permissions',
        input: {},
        onDone: [
          { guard: ({ event }) => event.output.uid === 0, target: 'done' },
          {
            target: 'done',
            actions: line('warn', ({ event }) => [
              'kubelet running with insufficient permissions',
              { err: `kubelet needs to run as uid \`0\`. It is being run as ${event.output.uid}` },
            ]),
          },
        ],
        onError: { target: 'done', actions: warning('kubelet running with insufficient permissions') },
      },
      exit: enqueueActions(({ context: { config, input }, enqueue }) => {
        if (!hasBehavior(input, 'configurationAsKubelet')) return;
        for (const text of tlsWarnings(config)) enqueue(line('info', text));
      }),
    },
    done: { type: 'final' },
  },
  onDone: 'run',
});
