/** Phases of every node, whether it keeps running or runs its pods once. */
import { to } from '../../kernel/xstate.ts';
import type { NodeFolder } from '../model/operations/host.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import { gatesOf } from './context/derive-features.ts';
import type { EstablishedContext } from './context/types.ts';
import { kubeletSetup, warning } from './setup.ts';

/**
 * The folders of the node, with upstream's modes and names. The embedded runtime has no mount namespaces, so no folder
 * is made shared for it.
 */
export function dataDirectories({ settings, config, runtime }: EstablishedContext): readonly NodeFolder[] {
  const { rootDir, podLogsDir } = settings;
  const folder = (path: string, what: string, mode = 0o750) => ({ path, mode, what });
  return [
    { ...folder(rootDir, 'root directory'), ...(runtime.embedded ? {} : { shared: true }) },
    folder(podLogsDir, `pod logs root directory ${JSON.stringify(podLogsDir)}`),
    folder(`${rootDir}/pods`, 'pods directory'),
    folder(`${rootDir}/plugins`, 'plugins directory'),
    folder(`${rootDir}/plugins_registry`, 'plugins registry directory'),
    folder(`${rootDir}/pod-resources`, 'podresources directory'),
    ...(gatesOf(config)('ContainerCheckpoint')
      ? [folder(`${rootDir}/checkpoints`, 'checkpoint directory', 0o700)]
      : []),
  ];
}

/** Containers run without this folder too: only the links for log collectors are missing. */
export const containerLogs = (next: string) =>
  kubeletSetup.createStateConfig({
    meta: { steps: 'S234', waitsFor: 'the folder of container logs' },
    invoke: {
      id: 'containerLogs',
      src: 'host.makeDirectories',
      input: ({ context }) => ({ directories: [{ path: context.settings.containerLogsDir, mode: 0o755 }] }),
      onDone: next,
      onError: { target: next, actions: warning('Failed to create the folder of container log links') },
    },
  });

/** Passes configured addresses of pods to the runtime if there is no API server; else a part of the node does. */
export const createPodCIDR = kubeletSetup.enqueueActions(({ context, enqueue }) => {
  const { clients, config, input } = context;
  const isWanted = clients.mode === 'standalone' && config.podCIDR !== '';
  if (isWanted && hasBehavior(input, 'podCIDROfConfiguration')) enqueue.raise({ type: 'create.podCIDR' });
});

const startContainerManager = kubeletSetup.sendTo(to('containerManager'), { type: 'containerManager.start' });

/** The container manager gets the message again after a crash. */
export const startContainerManagerAgain = { 'containerManager.created': { actions: startContainerManager } } as const;

export const CONTAINER_MANAGER_PHASE = {
  meta: { steps: 'S237-S241', waitsFor: 'the container manager to start' },
  entry: startContainerManager,
} as const;
