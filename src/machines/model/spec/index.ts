/** Turns a Pod into requests to the runtime and files on the node. Pure functions. */

export type { QOSClass } from '../api/pod.ts';
export { containerAnnotationKeys } from './annotations.ts';
export {
  type ContainerConfigInput,
  type ContainerConfigResult,
  type ContainerKind,
  containerConfig,
  subPaths,
} from './container.ts';
export { podDns } from './dns.ts';
export { fileVariables, type References } from './environment.ts';
export { containerHash } from './hash.ts';
export { podHostname } from './hostname.ts';
export { imageWithTag, type PullPolicy, parseImage, pullPolicy, repositoryOf } from './image.ts';
export {
  containerFiles,
  legacyLogName,
  type PodFiles,
  podDirectory,
  podFiles,
  podLogDirectory,
  podLogFolders,
  terminationLogFile,
} from './paths.ts';
export { cgroupParent, podQOS } from './qos.ts';
export { isSidecar, oomScoreAdj } from './resources.ts';
export { sandboxConfig } from './sandbox.ts';
export { usersRefusal } from './security.ts';
export type { MountedVolume, MountedVolumes } from './volumes.ts';
