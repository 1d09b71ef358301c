/** The answers of the world to operations of pods: by the runtime, the disk, the cgroups and the volumes. */
import type { JsonEvent } from '../../kernel/json.ts';
import type { InputOf, OutputOf } from '../../kernel/xstate.ts';
import type { RememberedPod, SoftState } from '../../machines/model/operations/host.ts';
import type { Operations } from '../../machines/model/operations/index.ts';
import type { PodsWorld } from './pods-world.ts';
import { RuntimeError } from './runtime-model.ts';

type Name = keyof Operations;
type Handler<N extends Name> = (
  input: InputOf<Operations[N]>,
  done: (output: OutputOf<Operations[N]>) => void,
  emit: (event: JsonEvent) => void,
  /** Whether the caller still waits for the answer. */
  isOpen: () => boolean,
) => void | (() => void);
type Handlers = { readonly [N in Name]?: Handler<N> };

export const podsAnswers = (world: PodsWorld): Handlers => ({
  ...criHandlers(world),
  ...commandHandlers(world),
  ...imageHandlers(world),
  ...hostHandlers(world),
  ...volumeHandlers(world),
  ...cgroupHandlers(world),
});

/** The sandbox as part of the answer to a call. */
function sandboxNow(world: PodsWorld, id: string) {
  const sandbox = world.runtime.sandboxes.get(id);
  return sandbox ? world.markKnown(sandbox.config.metadata?.uid ?? '', world.runtime.statusOfSandbox(sandbox)) : null;
}

function containerNow(world: PodsWorld, id: string) {
  const container = world.runtime.containers.get(id);
  const uid = container?.sandbox.config.metadata?.uid ?? '';
  return container ? world.markKnown(uid, world.runtime.statusOfContainer(container)) : null;
}

function criHandlers(world: PodsWorld): Handlers {
  const { runtime } = world;
  return {
    'cri.podStatus': ({ uid }, done) => done(world.markAllKnown(runtime.inspect(uid))),
    'cri.runPodSandbox': ({ config }, done) => {
      const podSandboxId = runtime.runSandbox(config);
      done({ podSandboxId, status: sandboxNow(world, podSandboxId) });
    },
    'cri.stopPodSandbox': ({ podSandboxId }, done) => {
      runtime.stopSandbox(podSandboxId);
      done({ status: sandboxNow(world, podSandboxId) });
    },
    'cri.removePodSandbox': ({ podSandboxId }, done) => {
      runtime.removeSandbox(podSandboxId);
      done(null);
    },
    'cri.createContainer': ({ podSandboxId, config }, done) => {
      for (const { host_path = '', image } of config.mounts ?? []) {
        if (image !== undefined) continue;
        if (!world.files.has(host_path) && !world.folders.has(host_path)) {
          throw new RuntimeError('INVALID_ARGUMENT', `failed to stat "${host_path}": no such file or directory`);
        }
      }
      const containerId = runtime.createContainer(podSandboxId, config);
      containerNow(world, containerId);
      done({ containerId });
    },
    'cri.startContainer': ({ containerId }, done) => {
      runtime.startContainer(containerId);
      done({ status: containerNow(world, containerId) });
    },
    'cri.stopContainer': ({ containerId, timeoutSeconds }, done, _, isOpen) =>
      runtime.stopContainer(containerId, timeoutSeconds, () =>
        done({ status: isOpen() ? containerNow(world, containerId) : null }),
      ),
    'cri.updateContainerResources': ({ containerId, linux }, done) => {
      runtime.resizeContainer(containerId, linux);
      world.resizes.push({ containerId, linux });
      done(null);
    },
    'cri.updatePodSandboxResources': (_, done) => done({ isSupported: false }),
    'cri.removeContainer': ({ containerId }, done) => {
      runtime.removeContainer(containerId);
      done(null);
    },
  };
}

function commandHandlers(world: PodsWorld): Handlers {
  return {
    'cri.execSync': ({ command }, done) => {
      const known = world.commands.get(command.join(' ')) ?? { takesMs: 0, exitCode: 0 };
      const { takesMs, exitCode, stdout = '', stderr = '' } = known;
      return world.time.arm(world.time.ms + takesMs, () => done({ exitCode, stdout, stderr }));
    },
    'probe.httpHook': ({ url }, done) => {
      const answer = world.answers.get(url);
      if (answer?.result === 'failure') throw new RuntimeError('HOOK_FAILED', answer.output);
      return world.time.arm(world.time.ms + (world.commands.get(url)?.takesMs ?? 0), () =>
        done({ fellBack: answer?.result === 'warning' }),
      );
    },
  };
}

function imageHandlers(world: PodsWorld): Handlers {
  const { runtime } = world;
  return {
    'cri.updateRuntimeConfig': (_, done) => done(null),
    'cri.imageStatus': ({ image }, done) => done({ image: runtime.images.get(image) ?? null }),
    'cri.listImages': (_, done) => done({ images: [...runtime.images.values()] }),
    'cri.imageFsInfo': (_, done) => done({ mountpoint: '/', usedBytes: '0', inodesUsed: '0' }),
    'cri.removeImage': ({ image }, done) => {
      for (const [name, { id }] of runtime.images) if (name === image || id === image) runtime.images.delete(name);
      done(null);
    },
    'cri.pullImage': ({ image, auth }, done) => {
      const found = world.registry.get(image);
      const refusal = world.rights.refusal(image, auth);
      if (refusal !== null) throw new RuntimeError('UNKNOWN', `rpc error: code = Unknown desc = ${refusal}`);
      if (!found) throw new RuntimeError('NOT_FOUND', `failed to resolve reference "${image}": not found`);
      runtime.images.set(image, found);
      done({ imageRef: found.id });
    },
  };
}

function hostHandlers(world: PodsWorld): Handlers {
  return {
    'host.preparePod': ({ directories, files }, done) => {
      for (const { path } of directories) world.folders.add(path);
      for (const { path, content } of files) {
        const text = typeof content === 'object' && content ? content.before + content.known + content.after : content;
        if (text !== null || !world.files.has(path)) world.files.set(path, text ?? '');
      }
      const numbered = directories.flatMap(({ path, numbered }) =>
        numbered === true && world.nextLogs.has(path) ? [[path, world.nextLogs.get(path) ?? 0] as const] : [],
      );
      done(numbered.length === 0 ? null : { nextLogs: Object.fromEntries(numbered) });
    },
    'host.removePod': ({ root, paths }, done) => {
      for (const path of paths) {
        if (!path.startsWith(`${root}/`)) throw new RuntimeError('EPERM', `${path} is not below ${root}`);
        for (const each of world.folders) if (`${each}/`.startsWith(`${path}/`)) world.folders.delete(each);
        for (const each of world.files.keys()) if (each.startsWith(`${path}/`)) world.files.delete(each);
      }
      done(null);
    },
    'host.terminationMessage': ({ file }, done) => done({ message: world.messages.get(file) ?? '' }),
    'host.symlink': (_, done) => done(null),
    'logs.podFolders': (_, done) => done({ pods: world.logFolders }),
    'users.map': (_, done) => done({ hostId: 131_072, length: 65_536 }),
    'logs.unlink': (_, done) => done(null),
    'logs.remove': (_, done) => done(null),
    'cri.reopenContainerLog': (_, done) => done(null),
    'logs.restore': (_, done) => done(null),
    'host.fileSystem': (_, done) => done(world.disk),
    'host.loadPods': (_, done) => done({ pods: [...world.remembered.values()] }),
    'host.savePod': ({ uid, remembered }, done) => {
      if (remembered === null) world.remembered.delete(uid);
      else world.remembered.set(uid, structuredClone<RememberedPod>(remembered));
      done(null);
    },
    'host.loadSoftState': (_, done) => done(world.softState),
    'host.saveSoftState': ({ state }, done) => {
      world.softState = structuredClone<SoftState>(state);
      done(null);
    },
  };
}

/** The world has the cgroups of pods only; all others exist. */
const isOfPod = (path: string): boolean => /\/pod[^/]+$/.test(path);

function cgroupHandlers(world: PodsWorld): Handlers {
  const { groups } = world;
  const below = (path: string) => [...groups.keys()].filter((each) => each === path || each.startsWith(`${path}/`));
  return {
    'host.tuneKernel': (_, done) => done({ errors: [] }),
    'cgroup.missing': ({ path }, done) => done({ missing: isOfPod(path) && !groups.has(path) ? [path] : [] }),
    'cgroup.own': (_, done) => done({ path: '/system.slice/kubelet.service' }),
    'cgroup.ensure': ({ path, resources }, done) => {
      groups.set(path, { ...groups.get(path), ...resources });
      done(null);
    },
    'cgroup.update': ({ path, resources }, done) => {
      if (!groups.has(path)) throw new RuntimeError('ENOENT', `cgroup "${path}" has some missing paths`);
      groups.set(path, { ...groups.get(path), ...resources });
      done(null);
    },
    'cgroup.destroy': ({ paths }, done) => {
      for (const each of paths.flatMap(below)) groups.delete(each);
      done(null);
    },
    'cgroup.listPods': ({ parents }, done) => {
      const pods = [...groups.keys()].flatMap((path) => {
        const [, parent = '', uid] = /^(.*)\/pod([^/]+)$/.exec(path) ?? [];
        return uid !== undefined && parents.includes(parent) ? [{ uid, path }] : [];
      });
      done({ pods });
    },
    'cgroup.memoryUsage': ({ containers }, done) =>
      done({
        bytes: world.memoryUsage,
        containers: Object.fromEntries(containers.map((id) => [id, world.memoryUsage])),
      }),
  };
}

function volumeHandlers(world: PodsWorld): Handlers {
  return {
    'volume.setUp': ({ volumes }, done) => {
      const failed = volumes.flatMap(({ name }) => {
        const message = world.volumeFailures.get(name);
        return message === undefined ? [] : [{ name, message }];
      });
      const good = volumes.filter(({ name }) => !world.volumeFailures.has(name));
      for (const volume of good) world.folders.add(volume.kind === 'device' ? volume.link : volume.path);
      done({ failed, ...world.notGiven });
    },
    'volume.bindSubPaths': ({ subPaths }, done) => {
      for (const { target } of subPaths) world.folders.add(target);
      done({ failed: {} });
    },
    'volume.readVariables': ({ variables }, done) => {
      const known = variables.map(({ container, env, key }) => [container, env, world.fileValues.get(key)] as const);
      const missing = known.filter(([, , value]) => value === undefined).map(([container]) => container);
      const unread = { message: "couldn't parse env file", why: 'there is no such file' };
      const of = (container: string) => known.filter(([owner]) => owner === container);
      const values = known.map(([container]) => [
        container,
        Object.fromEntries(of(container).map(([, env, value]) => [env, value ?? null])),
      ]);
      const failed = Object.fromEntries(missing.map((container) => [container, unread]));
      done({ values: Object.fromEntries(values), failed });
    },
    'volume.sharings': (_, done) => done(world.sharings),
    'volume.podFolders': ({ root }, done) => {
      const below = [...world.folders].flatMap((path) =>
        path.startsWith(`${root}/pods/`) ? path.split('/').slice(5, 6) : [],
      );
      done({ uids: [...new Set(below)] });
    },
    'volume.tearDown': ({ podDirectory }, done) => {
      for (const path of world.folders) {
        const isOwn = ['volumes', 'volume-subpaths'].some((each) => path.startsWith(`${podDirectory}/${each}/`));
        if (isOwn) world.folders.delete(path);
      }
      done(null);
    },
  };
}
