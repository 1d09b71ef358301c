/**
 * `run()`: the steps before a kubelet object exists, in upstream's order.
 *
 * Steps: S040 to S106. Each phase starts the subsystem that owns it and waits for its answer.
 */
import { assign, enqueueActions, errorOf, line, raise } from '../../kernel/xstate.ts';
import { gatesOf } from '../configuration/fields/feature-gates.ts';
import { reservedCPULines } from '../configuration/validation/resource-managers.ts';
import { isAtLeast } from '../model/allocation/sysctls.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import { CLIENT_CA_MAX_BYTES, clientCARefusal } from './clients/auth.ts';
import type { EstablishedContext, Failure, NodeIdentity } from './context/types.ts';
import { failing, kubeletSetup, warning } from './setup.ts';
import { clientBuilderInput } from './subsystem-inputs.ts';

const clientCAFile = ({ config }: EstablishedContext): string => config.authentication.x509.clientCAFile ?? '';

const MEMORY_QOS = 'Warning: MemoryQoS feature only works with cgroups v2 on Linux, but enabled with cgroups v1';
const OLD_KERNEL = 'Warning: MemoryQoS memory.high throttling may cause process livelock on older kernels';
const LEAST_KERNEL = [5, 9] as const;

type Warning = string | readonly [text: string, fields: Readonly<Record<string, string>>];

/** Upstream's warning about the gate MemoryQoS on this machine; `null`: there is none. */
function memoryQoSWarning({ config, cgroups, machineInfo, input }: EstablishedContext): Warning | null {
  if (!gatesOf(config)('MemoryQoS')) return null;
  if (cgroups.version === 1) return MEMORY_QOS;
  const { kernelVersion: currentKernel } = machineInfo;
  if (isAtLeast(currentKernel, LEAST_KERNEL) || !hasBehavior(input, 'podDetailsAsKubelet')) return null;
  return [OLD_KERNEL, { currentKernel, minimumKernel: LEAST_KERNEL.join('.') }];
}

const hasLockFile = ({ context }: { context: EstablishedContext }) => context.flags.lockFile !== '';

/** `--hostname-override` or the machine's own name, trimmed and lower-case; upstream's GetHostname. */
export function nodeNameOf(override: string, hostname: string): string {
  return (override === '' ? hostname : override).trim().toLowerCase();
}

function nodeNamed(context: EstablishedContext, hostname: string): NodeIdentity {
  const nodeName = nodeNameOf(context.flags.hostnameOverride, hostname);
  return { nodeName, hostname: nodeName, nodeIPs: [] };
}

const hostnameFailure = (text: string): Failure => ({
  phase: 'run.hostname',
  message: `failed to run Kubelet: ${text}`,
  exitCode: 1,
});

export const run = kubeletSetup.createStateConfig({
  initial: 'begun',
  states: {
    begun: {
      meta: { steps: 'S040' },
      entry: [
        line('info', ({ context }) => ['Kubelet version', { kubeletVersion: context.input.version }]),
        enqueueActions(({ context, enqueue }) => {
          if (!hasBehavior(context.input, 'configurationAsKubelet')) enqueue.raise({ type: 'create.logging' });
        }),
      ],
      always: 'watchdog',
    },
    watchdog: {
      meta: { waitsFor: 'what the service manager wants of its watchdog' },
      entry: raise({ type: 'create.watchdog' }),
      on: {
        'watchdog.ready': [{ guard: hasLockFile, target: 'lockFile' }, { target: 'hostname' }],
        'watchdog.failed': failing('run.watchdog'),
      },
    },
    lockFile: {
      meta: { steps: 'S047-S049', waitsFor: 'the lock file' },
      entry: raise({ type: 'create.lockFile' }),
      on: { 'lockFile.acquired': 'hostname', 'lockFile.failed': failing('run.lockFile') },
    },
    hostname: {
      meta: { steps: 'S054-S055', waitsFor: 'the host name' },
      invoke: {
        id: 'hostname',
        src: 'host.hostname',
        input: {},
        onDone: [
          {
            guard: ({ context, event }) => nodeNameOf(context.flags.hostnameOverride, event.output.hostname) === '',
            target: '#kubelet.failed',
            actions: assign({ failure: hostnameFailure('empty hostname is invalid') }),
          },
          {
            target: 'clients',
            actions: assign({ node: ({ context, event }) => nodeNamed(context, event.output.hostname) }),
          },
        ],
        onError: [
          {
            guard: ({ context }) => nodeNameOf(context.flags.hostnameOverride, '') !== '',
            target: 'clients',
            actions: assign({ node: ({ context }) => nodeNamed(context, '') }),
          },
          {
            target: '#kubelet.failed',
            actions: assign({
              failure: ({ event }) => hostnameFailure(`couldn't determine hostname: ${errorOf(event).message}`),
            }),
          },
        ],
      },
    },
    clients: {
      meta: { steps: 'S052-S063', waitsFor: 'the clients of the API server' },
      invoke: {
        id: 'clientBuilder',
        src: 'clientBuilder',
        input: ({ context }) => clientBuilderInput(context),
        onDone: [
          {
            guard: ({ event }) =>
              event.output.ok && event.output.value.mode === 'cluster' && event.output.value.rotates,
            target: 'clientCA',
            actions: [
              assign(({ event }) => (event.output.ok ? { clients: event.output.value } : {})),
              raise({ type: 'create.clientCertificate' }),
            ],
          },
          {
            guard: ({ event }) => event.output.ok,
            target: 'clientCA',
            actions: assign(({ event }) => (event.output.ok ? { clients: event.output.value } : {})),
          },
          failing('run.clients'),
        ],
        onError: failing('run.clients'),
      },
    },
    clientCA: {
      meta: { steps: 'S064', waitsFor: "the authorities of the API's clients" },
      always: { guard: ({ context }) => clientCAFile(context) === '', target: 'auth' },
      invoke: {
        id: 'clientCA',
        src: 'host.readFile',
        input: ({ context }) => ({ path: clientCAFile(context), maxBytes: CLIENT_CA_MAX_BYTES }),
        onDone: [
          {
            guard: ({ context, event }) => clientCARefusal(clientCAFile(context), event.output.content) === '',
            target: 'auth',
          },
          {
            target: '#kubelet.failed',
            actions: assign({
              failure: ({ context, event }) => ({
                phase: 'run.clientCA',
                message: `failed to run Kubelet: ${clientCARefusal(clientCAFile(context), event.output.content)}`,
                exitCode: 1,
              }),
            }),
          },
        ],
        onError: failing('run.clientCA'),
      },
    },
    auth: {
      meta: { steps: 'S064-S065', waitsFor: 'authenticator and authorizer' },
      invoke: {
        id: 'auth',
        src: 'auth',
        input: ({ context }) => ({
          anonymous: context.config.authentication.anonymous.enabled,
          webhookAuthentication: context.config.authentication.webhook.enabled,
          clientCAFile: context.config.authentication.x509.clientCAFile ?? '',
          authorizationMode: context.config.authorization.mode,
          hasClient: context.clients.mode === 'cluster',
        }),
        onDone: [{ guard: ({ event }) => event.output.ok, target: 'runtimeService' }, failing('run.auth')],
        onError: failing('run.auth'),
      },
    },
    runtimeService: {
      meta: { steps: 'S106', waitsFor: 'the container runtime to answer' },
      entry: [raise({ type: 'create.runtimeState' }), raise({ type: 'create.runtimeService' })],
      on: {
        'runtimeService.ready': { target: 'cadvisor', actions: assign({ runtime: ({ event }) => event.runtime }) },
        'runtimeService.failed': failing('run.runtimeService'),
      },
    },
    cadvisor: {
      meta: { steps: 'S066-S072, S077', waitsFor: 'machine info' },
      invoke: {
        id: 'cadvisor',
        src: 'cadvisor',
        onDone: [
          {
            guard: ({ event }) => event.output.ok,
            target: 'eventRecorder',
            actions: assign(({ event }) => (event.output.ok ? { machineInfo: event.output.value } : {})),
          },
          failing('run.cadvisor'),
        ],
        onError: failing('run.cadvisor'),
      },
    },
    eventRecorder: {
      meta: { steps: 'S073' },
      entry: [
        raise({ type: 'create.eventRecorder' }),
        enqueueActions(({ context, enqueue }) => {
          if (context.flags.kubeconfig !== '') return;
          enqueue(line('info', 'No api server defined - no events will be sent to API server'));
        }),
      ],
      always: 'containerManager',
    },
    containerManager: {
      meta: { steps: 'S075-S102', waitsFor: 'the container manager to accept this machine' },
      entry: [
        enqueueActions(({ context, enqueue }) => {
          for (const klog of reservedCPULines(context.config)) enqueue(line('warn', [klog, { klog }]));
        }),
        raise({ type: 'create.containerManager' }),
      ],
      on: {
        'containerManager.created': {
          target: 'oomScore',
          actions: [
            assign({ cgroups: ({ event }) => event.cgroups, resources: ({ event }) => event.resources }),
            enqueueActions(({ context, enqueue }) => {
              const warned = memoryQoSWarning(context);
              if (warned !== null) enqueue(line('warn', warned));
            }),
          ],
        },
        'containerManager.failed': failing('run.containerManager'),
      },
    },
    oomScore: {
      meta: { steps: 'S105', waitsFor: 'the OOM score of this process' },
      invoke: {
        id: 'oomScore',
        src: 'host.setOomScoreAdj',
        input: ({ context }) => ({ value: context.config.oomScoreAdj }),
        onDone: 'done',
        onError: { target: 'done', actions: warning('Failed to ApplyOOMScoreAdj') },
      },
    },
    done: { type: 'final' },
  },
  onDone: 'runKubelet',
});
