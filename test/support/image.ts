/**
 * Container images without a registry: an OCI archive built from the machine's static busybox.
 *
 * `localhost/bb:1` is a busybox with all its applets; `localhost/pause:1` has the same files and waits for a signal, as
 * the first process of a sandbox must.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const BUSYBOX = '/bin/busybox';
export const BUSYBOX_IMAGE = 'localhost/bb:1';
export const PAUSE_IMAGE = 'localhost/pause:1';

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
/** Ends on SIGTERM, and reaps the orphans of a shared process namespace. */
const PAUSE_COMMAND = ['/bin/sh', '-c', "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"];
const OCI = 'application/vnd.oci.image';

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

async function fillRootfs(rootfs: string): Promise<void> {
  for (const directory of ['bin', 'dev', 'etc', 'proc', 'root', 'sys', 'tmp', 'var']) {
    await mkdir(join(rootfs, directory), { recursive: true });
  }
  await chmod(join(rootfs, 'tmp'), 0o1777);
  await copyFile(BUSYBOX, join(rootfs, 'bin/busybox'));
  await chmod(join(rootfs, 'bin/busybox'), 0o755);
  const { stdout } = await run(BUSYBOX, ['--list']);
  const applets = stdout.split('\n').filter((applet) => applet !== '' && applet !== 'busybox');
  await Promise.all(applets.map((applet) => symlink('busybox', join(rootfs, 'bin', applet))));
  await writeFile(join(rootfs, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n');
  await writeFile(join(rootfs, 'etc/group'), 'root:x:0:\nnogroup:x:65534:\n');
}

/** Stores a blob under its digest. */
async function addBlob(layout: string, content: string | Buffer, mediaType: string): Promise<Descriptor> {
  const hash = createHash('sha256').update(content).digest('hex');
  const path = join(layout, 'blobs/sha256', hash);
  await writeFile(path, content);
  return { mediaType, digest: `sha256:${hash}`, size: (await stat(path)).size };
}

async function addImage(layout: string, name: string, command: readonly string[], layer: Descriptor) {
  const config = {
    architecture: ARCHITECTURES[process.arch] ?? process.arch,
    os: 'linux',
    config: { Env: ['PATH=/bin'], Cmd: command },
    rootfs: { type: 'layers', diff_ids: [layer.digest] },
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: `${OCI}.manifest.v1+json`,
    config: await addBlob(layout, JSON.stringify(config), `${OCI}.config.v1+json`),
    layers: [layer],
  };
  const descriptor = await addBlob(layout, JSON.stringify(manifest), manifest.mediaType);
  return {
    ...descriptor,
    annotations: { 'io.containerd.image.name': name, 'org.opencontainers.image.ref.name': name.split(':').at(-1) },
  };
}

/** Writes both images into one OCI archive at `archive`. */
export async function buildTestImages(archive: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'statelet-image-'));
  try {
    const rootfs = join(work, 'rootfs');
    const layout = join(work, 'layout');
    await mkdir(join(layout, 'blobs/sha256'), { recursive: true });
    await fillRootfs(rootfs);
    const layerFile = join(work, 'layer.tar');
    await run('tar', ['--numeric-owner', '--owner=0', '--group=0', '-C', rootfs, '-cf', layerFile, '.']);
    const layer = await addBlob(layout, await readFile(layerFile), `${OCI}.layer.v1.tar`);
    const manifests = [
      await addImage(layout, BUSYBOX_IMAGE, ['sh'], layer),
      await addImage(layout, PAUSE_IMAGE, PAUSE_COMMAND, layer),
    ];
    await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
    await writeFile(join(layout, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
    await run('tar', ['-C', layout, '-cf', archive, '.']);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
