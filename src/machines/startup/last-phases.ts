/**
 * The last phases before pods, of a node that goes on and of one that runs its pods once: the folders, and what depends
 * on the runtime. Steps: S233, S234, S237 to S241.
 */
import { to } from '../../kernel/xstate.ts';
import type { NodeFolder } from '../model/operations/host.ts';
import { gatesOf } from './context/derive-features.ts';
import type { EstablishedContext } from './context/types.ts';
import { kubeletSetup, warning } from './setup.ts';

/**
 * The folders of the node, with upstream's modes and names. The embedded runtime has no namespaces of mounts: there is
 * nothing to share with.
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

/** Without it containers run as well: only the links that log collectors read are missing. */
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

const startContainerManager = kubeletSetup.sendTo(to('containerManager'), { type: 'containerManager.start' });

/** A container manager that crashed before it heard, or later, is there again and hears it again. */
export const startContainerManagerAgain = { 'containerManager.created': { actions: startContainerManager } } as const;

export const CONTAINER_MANAGER_PHASE = {
  meta: { steps: 'S237-S241', waitsFor: 'the container manager to start' },
  entry: startContainerManager,
} as const;
