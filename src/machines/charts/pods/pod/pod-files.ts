/**
 * The files of a pod, and its requests to the runtime, derived from the context of a pod's machine. Pure. See `pod.ts`.
 */

import type { SecretHandle } from '../../../../kernel/xstate.ts';
import { cpusOf } from '../../../model/allocation/cpu-manager.ts';
import type { ContainerConfig, KeyValue, PodSandboxConfig } from '../../../model/api/cri.ts';
import type { Pod } from '../../../model/api/pod.ts';
import { cdiDevicesOf } from '../../../model/dra/claims.ts';
import { environmentReferences, handlesIn } from '../../../model/objects/config-objects.ts';
import { servicesKey } from '../../../model/objects/keys.ts';
import type { FileVariable, SubPath } from '../../../model/operations/volume.ts';
import { waitingReasons } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { type ContainerConfigInput, containerConfig, subPaths } from '../../../model/spec/container.ts';
import { fileVariables } from '../../../model/spec/environment.ts';
import { wordHandles, writtenHandles } from '../../../model/spec/expansion.ts';
import {
  containerFiles,
  podDirectory,
  podFiles,
  podLogDirectory,
  podLogFolders,
  terminationLogFile,
} from '../../../model/spec/paths.ts';
import { sandboxConfig } from '../../../model/spec/sandbox.ts';
import type { MountedVolume, MountedVolumes } from '../../../model/spec/volumes.ts';
import { factsOf } from '../../../model/status/runtime-facts.ts';
import { valueIn } from '../../../model/values/tables.ts';
import type { PodContext } from './pod-context.ts';
import { type Member, membersOf, runtimeHandler, unavailable } from './pod-members.ts';
import { addressesOf, podOrName } from './pod-policy.ts';
import { hasClaims } from './pod-start-order.ts';

export function foldersOf(context: PodContext) {
  const { node, runtime } = context;
  const pod = podOrName(context);
  const { directories, files } = podFiles(pod, node, []);
  const containers = membersOf(pod).map(({ container }) => container.name);
  const reads = hasBehavior(node, 'containersAsKubelet');
  const logs = podLogFolders(pod, containers, node, (name) => reads && factsOf(runtime, name) === null);
  return { root: node.rootDir, directories: [...directories, ...logs], files };
}

export function filesOfTurn(context: PodContext) {
  const pod = podOrName(context);
  const shared = podFiles(pod, context.node, addressesOf(context));
  const own = membersOf(pod)
    .filter(({ container }) => context.writing.includes(container.name))
    .map(({ container }) =>
      containerFiles(
        pod,
        container,
        valueIn(context.containers, container.name)?.request?.restartCount ?? 0,
        context.node,
      ),
    );
  return {
    root: context.node.rootDir,
    directories: [shared, ...own].flatMap(({ directories }) => directories),
    files: [shared, ...own].flatMap(({ files }) => files),
  };
}

export const podPaths = (context: PodContext) => ({
  root: context.node.rootDir,
  paths: [podDirectory(podOrName(context), context.node)],
});

export const logPaths = (context: PodContext) => ({
  root: context.node.podLogsDir,
  paths: [podLogDirectory(podOrName(context), context.node)],
});

/** User ids per pod, upstream's default. */
const IDS_PER_POD = 65_536;

export const usersPlace = ({ uid, node }: PodContext) => ({
  root: node.rootDir,
  uid,
  idsPerPod: node.idsPerPod ?? IDS_PER_POD,
  maxPods: node.maxPods,
});

/** The file whose removal frees the user ids of a pod. */
export const usersFile = (context: PodContext) => ({
  root: context.node.rootDir,
  paths: [`${podDirectory(podOrName(context), context.node)}/userns`],
});

export const linksOf = (context: PodContext) => ({
  links: context.node.containerLogsDir,
  folder: podLogDirectory(podOrName(context), context.node),
  dangling: false,
});

function configInput(context: PodContext, { container, kind }: Member): ContainerConfigInput {
  const pod = podOrName(context);
  const target = targetOf(pod, container.name);
  const targetId = target === '' ? undefined : factsOf(context.runtime, target)?.id;
  const request = valueIn(context.containers, container.name)?.request;
  const restartCount = request?.restartCount ?? 0;
  const image = request?.image ?? null;
  return {
    pod,
    container,
    kind,
    restartCount,
    imageRef: image?.ref ?? container.image ?? '',
    image: image && {
      id: image.ref,
      repo_tags: [],
      repo_digests: [],
      size: '0',
      pinned: false,
      username: image.username,
      ...(image.uid === null ? {} : { uid: { value: image.uid } }),
    },
    podIPs: addressesOf(context),
    node: context.node,
    terminationLogFile: terminationLogFile(pod, container.name, restartCount, context.node),
    volumes: withImages(context, container.name),
    references: environmentReferences(context.objects, unavailable(context)),
    fileValues: valueIn(context.fileValues, container.name) ?? {},
    serviceVariables: serviceVariables(context),
    ...(targetId === undefined ? {} : { targetId }),
    users: context.users,
    handler: runtimeHandler(context) ?? '',
    cpus: cpusOf(context.cpus, container.name),
    memoryNodes: valueIn(context.memoryNodes, container.name) ?? '',
    devices: valueIn(context.devices, container.name)?.setup ?? null,
  };
}

function withImages({ volumes, images }: PodContext, container: string): MountedVolumes {
  const known = valueIn(images, container);
  if (volumes === null || known === undefined) return volumes ?? {};
  const entries = Object.entries(volumes).map(([name, volume]): [string, MountedVolume] => {
    const ref = valueIn(known, name)?.ref;
    return [name, volume.image && ref !== undefined ? { ...volume, image: { ...volume.image, ref } } : volume];
  });
  return Object.fromEntries(entries);
}

/** The container whose processes an ephemeral container shares; empty for all other containers. */
const targetOf = ({ spec }: Pod, name: string): string =>
  (spec.ephemeralContainers ?? []).find((each) => each.name === name)?.targetContainerName ?? '';

/** Environment variables of the services that the pod may see; none on a node without an API server. */
function serviceVariables({ pod, node, objects }: PodContext): readonly KeyValue[] {
  if (pod === null || node.apiServer === undefined) return [];
  return Object.entries(objects[servicesKey(pod)]?.data ?? {}).flatMap(([key, content]) =>
    'text' in content && typeof content.text === 'string' ? [{ key, value: content.text }] : [],
  );
}

/** The sub-paths of the containers whose turn it is. A container with an invalid configuration has none. */
export const subPathsOf = (context: PodContext): readonly SubPath[] =>
  membersOf(podOrName(context))
    .filter(({ container }) => context.writing.includes(container.name))
    .flatMap((member) => subPaths(configInput(context, member)))
    .filter((each) => !namesSecret(context, each));

/** The files of volumes with variables for the containers whose turn it is. */
export const fileVariablesOf = (context: PodContext): readonly FileVariable[] =>
  membersOf(podOrName(context))
    .filter(({ container }) => context.writing.includes(container.name))
    .flatMap(({ container }) => fileVariables(container, context.volumes ?? {}));

/** A sub-path becomes a folder name, so it must not contain the value of a Secret. */
const namesSecret = (context: PodContext, { container, subPath }: SubPath): boolean =>
  secretsIn(subPath, context, container).length > 0;

/** The handles in a text about a container: of Secrets, and of files of volumes. */
function secretsIn(text: string, { objects, fileValues }: PodContext, container: string): readonly SecretHandle[] {
  const ofFiles = Object.values(valueIn(fileValues, container) ?? {}).flatMap((value) =>
    value !== null && text.includes(value.$secret) ? [value] : [],
  );
  return [...handlesIn(text, objects), ...ofFiles];
}

export const sandboxConfigOf = (context: PodContext, attempt: number): PodSandboxConfig =>
  sandboxConfig(podOrName(context), attempt, context.node, context.users, context.volumes ?? {});

export interface Permission {
  readonly podSandboxId: string;
  readonly config: ContainerConfig;
  readonly sandboxConfig: PodSandboxConfig;
  readonly secrets: readonly SecretHandle[];
  /** Handles of the literal texts in the container's definition; see `writtenHandles`. */
  readonly written: readonly SecretHandle[];
  /** Handles of its command and arguments; see `wordHandles`. */
  readonly words?: readonly SecretHandle[];
}

type Refusal = { readonly error: { readonly reason: string; readonly message: string } };

const refusal = (message: string): Refusal => ({
  error: { reason: waitingReasons.createContainerConfigError, message },
});

const claimedDevices = (context: PodContext, { container }: Member): readonly string[] | { readonly error: string } =>
  hasClaims(context) ? cdiDevicesOf(podOrName(context), container, context.node, context.claims?.prepared ?? {}) : [];

/** The configuration that a container is created with, or why it cannot be created. */
export function permission(context: PodContext, member: Member): Permission | Refusal {
  const { name } = member.container;
  for (const failed of [context.unprepared, context.unread, context.unbound]) {
    if (Object.hasOwn(failed, name)) return refusal(failed[name] ?? '');
  }
  const target = targetOf(podOrName(context), name);
  if (target !== '' && factsOf(context.runtime, target) === null) {
    return refusal(`unable to find target container ${target}`);
  }
  const claimed = claimedDevices(context, member);
  if ('error' in claimed) return refusal(claimed.error);
  const result = containerConfig({ ...configInput(context, member), claimed });
  if ('error' in result) return result;
  const withSecret = subPaths(configInput(context, member)).find((each) => namesSecret(context, each));
  if (withSecret) return refusal(`subPathExpr of volume "${withSecret.volume}" must not hold a value of a Secret`);
  const sandbox = context.runtime?.sandboxes[0];
  const words = wordHandles(member.container);
  return {
    podSandboxId: sandbox?.id ?? '',
    config: result.config,
    sandboxConfig: sandboxConfigOf(context, sandbox?.metadata?.attempt ?? 0),
    secrets: secretsIn(JSON.stringify(result.config), context, name),
    written: writtenHandles(member.container),
    ...(words.length === 0 ? {} : { words }),
  };
}
