/**
 * `RunKubelet`: the node's own addresses and limits, then the kubelet object and all of its subsystems.
 *
 * Steps: S115 to S208. Subsystems are created in the order of `NewMainKubelet`; they address each other by name,
 * without references.
 */
import { assign, enqueueActions, errorOf, line, raise, to } from '../../kernel/xstate.ts';
import { gatesOf } from '../configuration/fields/feature-gates.ts';
import { invalidNodeAddresses } from '../model/configuration/run-refusals.ts';
import type { MachineAddresses } from '../model/operations/host.ts';
import { nodeEvent } from '../model/pods/pod-messages.ts';
import { nodeEvents } from '../model/reasons/reasons.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import { logLines } from '../model/values/go-text.ts';
import { deriveSettings, invalidClusterDNS } from './context/derive-settings.ts';
import type { EstablishedContext, Failure, NodeIdentity } from './context/types.ts';
import { addressesToReport, chooseNodeIPs, nameToLookUp, resolveNodeIPs } from './host/node-ip.ts';
import { failing, kubeletSetup, warning } from './setup.ts';

/** Largest resolv.conf and hosts file read; upstream's cap for resolv.conf is 10 MiB. */
const NODE_FILE_MAX_BYTES = 10 * 1024 * 1024;

const hasCredentialProviders = ({ context }: { context: EstablishedContext }) =>
  context.flags.imageCredentialProviderConfig !== '' || context.flags.imageCredentialProviderBinDir !== '';

const TOKENS_GATE = 'KubeletServiceAccountTokenForCredentialProviders';

/** Upstream ends with this line alone. */
const noCredentialProviders = (message: string): Failure => ({
  phase: 'runKubelet.createAndInitKubelet.credentialProviders',
  message,
  exitCode: 1,
  lines: logLines('Failed to register CRI auth plugins', message),
});

/** Upstream's current text: a cache of the resource manager is the first to need the folder. */
const WITHOUT_ROOT =
  'create ResourceClaim cache: could not initialize checkpoint manager, please drain node and remove DRA state file, ' +
  'err: failed to initialize checkpoint manager: mkdir : no such file or directory';

const choosesAddresses = ({ input }: EstablishedContext): boolean => hasBehavior(input, 'addressesAsKubelet');

/** Pods have the addresses of the Node, which a cloud provider sets; until it is known, those that are reported. */
const followsNode = ({ flags, input }: EstablishedContext): boolean =>
  flags.cloudProvider === 'external' && flags.kubeconfig !== '' && hasBehavior(input, 'configurationAsKubelet');

/** This node with its addresses. As in the kubelet, it does not get an address that the machine does not have. */
function withAddresses(context: EstablishedContext, machine: MachineAddresses): NodeIdentity {
  const { flags, node, input } = context;
  if (choosesAddresses(context)) {
    const identity = { ...node, ...chooseNodeIPs(flags, node.hostname, machine) };
    if (!followsNode(context)) return identity;
    return { ...identity, hostAddresses: addressesToReport(flags, identity, input.behavior) };
  }
  const answer = resolveNodeIPs(flags, machine);
  return { ...node, nodeIPs: answer.ok ? answer.value : [] };
}

export const runKubelet = kubeletSetup.createStateConfig({
  initial: 'nodeIPs',
  states: {
    nodeIPs: {
      meta: { steps: 'S116-S120', waitsFor: 'the addresses of this machine' },
      invoke: {
        id: 'addresses',
        src: 'host.addresses',
        input: ({ context }) => (choosesAddresses(context) ? nameToLookUp(context.flags, context.node.nodeName) : {}),
        onDone: [
          {
            guard: ({ context, event }) => resolveNodeIPs(context.flags, event.output).ok,
            target: 'rootDirectory',
            actions: assign({ node: ({ context, event }) => withAddresses(context, event.output) }),
          },
          {
            target: '#kubelet.failed',
            actions: assign({
              failure: ({ context, event }) => {
                const answer = resolveNodeIPs(context.flags, event.output);
                const message = answer.ok ? '' : `failed to run Kubelet: ${answer.message}`;
                return { phase: 'runKubelet.nodeIPs', message, exitCode: 1 };
              },
            }),
          },
        ],
        onError: failing('runKubelet.nodeIPs'),
      },
    },
    rootDirectory: {
      meta: { steps: 'S121-S125, S136' },
      entry: [
        enqueueActions(({ context: { flags, input }, enqueue }) => {
          const IPs = hasBehavior(input, 'configurationAsKubelet') ? invalidNodeAddresses(flags.nodeIP) : [];
          if (IPs.length > 0) enqueue(line('info', ['Could not parse some node IP(s), ignoring them', { IPs }]));
        }),
        enqueueActions(({ context, enqueue }) => {
          const { nodeName, addressProblem: err } = context.node;
          if (err !== undefined)
            enqueue(line('error', ['Failed to set some node status fields', { node: nodeName, err }]));
        }),
        line('info', ({ context }) => ['Using root directory', { path: context.flags.rootDir }]),
      ],
      always: [
        { guard: ({ context }) => context.flags.rootDir !== '', target: 'createAndInitKubelet' },
        {
          target: '#kubelet.failed',
          actions: assign({
            failure: {
              phase: 'runKubelet.rootDirectory',
              message: `failed to run Kubelet: ${WITHOUT_ROOT}`,
              exitCode: 1,
            },
          }),
        },
      ],
    },
    createAndInitKubelet: {
      meta: { steps: 'S127-S129, S136-S208' },
      initial: 'resolver',
      states: {
        resolver: {
          meta: { steps: 'S155-S157', waitsFor: "the node's resolv.conf" },
          invoke: {
            id: 'resolvConf',
            src: 'host.readFile',
            input: ({ context }) => ({
              path: context.config.resolvConf || '/dev/null',
              maxBytes: NODE_FILE_MAX_BYTES,
            }),
            onDone: {
              target: 'hostsFile',
              actions: assign({ resolvConf: ({ event }) => event.output.content ?? '' }),
            },
            onError: { target: 'hostsFile', actions: warning('Could not open resolv conf file') },
          },
        },
        hostsFile: {
          meta: { waitsFor: "the node's hosts file" },
          invoke: {
            id: 'hostsFile',
            src: 'host.readFile',
            input: { path: '/etc/hosts', maxBytes: NODE_FILE_MAX_BYTES },
            onDone: {
              target: 'hostsFileRead',
              actions: assign({ hostsFile: ({ event }) => event.output.content ?? '' }),
            },
            onError: { target: 'hostsFileRead', actions: warning('Could not read the hosts file') },
          },
        },
        hostsFileRead: {
          always: [{ guard: hasCredentialProviders, target: 'credentialProviders' }, { target: 'softState' }],
        },
        credentialProviders: {
          meta: { steps: 'S176', waitsFor: 'the plugins that have credentials for images' },
          invoke: {
            id: 'registerProviders',
            src: 'images.registerProviders',
            input: ({ context }) => ({
              config: context.flags.imageCredentialProviderConfig,
              binDir: context.flags.imageCredentialProviderBinDir,
              tokens: gatesOf(context.config)(TOKENS_GATE),
            }),
            onDone: {
              target: 'softState',
              actions: assign({ pullsByServiceAccount: ({ event }) => event.output.usesAccounts }),
            },
            onError: {
              target: '#kubelet.failed',
              actions: assign({ failure: ({ event }) => noCredentialProviders(errorOf(event).message) }),
            },
          },
        },
        softState: {
          meta: { waitsFor: 'what the last incarnation remembered' },
          entry: [assign({ settings: ({ context }) => deriveSettings(context) }), raise({ type: 'create.softState' })],
          on: {
            'softState.loaded': 'parts',
          },
        },
        parts: {
          meta: { steps: 'S142-S205' },
          // An eventless transition would be taken before the raised events, so the event Starting would precede the
          // subsystems.
          entry: [
            enqueueActions(({ context, enqueue }) => {
              if (context.settings.apiServer === undefined) {
                enqueue(line('info', 'Kubelet is running in standalone mode, will skip API server sync'));
              } else {
                enqueue.raise({ type: 'create.objects' });
                enqueue.raise({ type: 'create.mirrorPods' });
                enqueue.raise({ type: 'create.rememberedPods' });
              }
            }),
            enqueueActions(({ context, enqueue }) => {
              for (const IP of invalidClusterDNS(context.config))
                enqueue(line('info', ['Invalid clusterDNS IP', { IP }]));
            }),
            raise({ type: 'create.oomWatcher' }),
            enqueueActions(({ context, enqueue }) => {
              if (context.config.serverTLSBootstrap) enqueue.raise({ type: 'create.servingCertificate' });
            }),
            raise({ type: 'create.podConfig' }),
            raise({ type: 'create.images' }),
            raise({ type: 'create.status' }),
            raise({ type: 'create.deviceManager' }),
            enqueueActions(({ context, enqueue }) => {
              if (hasBehavior(context.input, 'dynamicResources')) enqueue.raise({ type: 'create.draManager' });
            }),
            raise({ type: 'create.allocation' }),
            raise({ type: 'create.pods' }),
            raise({ type: 'create.done' }),
          ],
          on: {
            'create.done': [
              { guard: ({ context }) => context.config.serverTLSBootstrap, target: 'servingCertificate' },
              { target: 'birthCry' },
            ],
          },
        },
        servingCertificate: {
          meta: { waitsFor: 'the serving certificate that is on disk' },
          on: {
            'certificate.loaded': { guard: ({ event }) => event.purpose === 'serving', target: 'birthCry' },
          },
        },
        birthCry: {
          meta: { steps: 'S134' },
          entry: enqueueActions(({ context, enqueue }) => {
            const texts = [
              ...(context.machineInfo.noswap === false ? [nodeEvents.memoryOnDisk] : []),
              nodeEvents.starting,
              ...(context.cgroups.version === 1 ? [nodeEvents.cgroupV1] : []),
            ];
            for (const text of texts) enqueue.sendTo(to('eventRecorder'), nodeEvent(context.node.nodeName, text));
          }),
          always: 'garbageCollection',
        },
        garbageCollection: {
          meta: { steps: 'S135' },
          entry: [raise({ type: 'create.containerGC' }), raise({ type: 'create.imageGC' })],
          always: 'done',
        },
        done: { type: 'final' },
      },
      onDone: 'openFilesLimit',
    },
    openFilesLimit: {
      meta: { steps: 'S130', waitsFor: 'the limit of open files' },
      invoke: {
        id: 'openFilesLimit',
        src: 'host.setOpenFilesLimit',
        input: ({ context }) => ({ limit: context.config.maxOpenFiles }),
        onDone: 'done',
        onError: { target: 'done', actions: warning('Failed to set rlimit on max file handles') },
      },
    },
    done: { type: 'final' },
  },
  onDone: [
    { guard: ({ context }) => context.input.runOnce !== undefined, target: 'runOnce' },
    { target: 'startKubelet' },
  ],
});
