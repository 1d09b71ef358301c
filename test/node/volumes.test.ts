/**
 * Volumes of real containers: their content, its changes, where values of a Secret are written, and the leftovers after
 * the end of the pods.
 */
import { type Dirent, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { needsMounts } from '../actors/volume/support.ts';
import { eventually, readText, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

const CANARY = 'canary-5d0c1e77-do-not-write-me';
const configMap = (name: string, data: Record<string, string>) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  data,
});
const secret = (name: string, stringData: Record<string, string>) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  stringData,
});

const [embedded, containerd] = runtimes;
if (!embedded || !containerd) throw new Error('both runtimes are tested');

const mounts = (node: ObservedNode) =>
  readText('/proc/self/mountinfo')
    .split('\n')
    .filter((line) => line.includes(node.directory) && line.split(' ')[4] !== node.rootDir);

/** Every file below the node's folder except the volume itself and files of its owner. */
function filesOf(node: ObservedNode): string[] {
  const entries: Dirent[] = readdirSync(node.directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.includes('/volumes/kubernetes.io~secret/') && !path.startsWith(node.manifests));
}

/** A temporary file may have been renamed meanwhile: the file under the final name is read as well. */
function contentOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return Buffer.alloc(0);
  }
}

function filesWithCanary(node: ObservedNode): string[] {
  const shapes = [CANARY, Buffer.from(CANARY).toString('base64').slice(0, -4)];
  return filesOf(node).filter((path) => {
    const content = contentOf(path);
    return shapes.some((shape) => content.includes(shape));
  });
}

async function close(node: ObservedNode, runtime: RuntimeInUse): Promise<void> {
  if (!node.isRunning) await node.start();
  for (const name of readdirSync(node.manifests)) node.remove(name);
  await eventually('every volume is gone', () => mounts(node).length === 0).catch(() => {});
  await node.close();
  await runtime.close();
}

const { skip } = requirement('containerd', containerd.unavailable);
describe.skipIf(skip || needsMounts)('volumes on containerd', () => {
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  beforeAll(async () => {
    runtime = await containerd.start();
    node = new ObservedNode(runtime);
    await node.start();
  });
  afterAll(() => close(node, runtime));
  const write = (name: string, script: string, volumes: readonly object[], container: object, spec: object = {}) => {
    const pod = shellPod(name, node.image, script, { volumes, ...spec });
    const [only] = pod.spec.containers;
    node.write(`${name}.json`, { ...pod, spec: { ...pod.spec, containers: [{ ...only, ...container }] } });
  };
  const hasPrinted = (pod: string, text: string) =>
    eventually(`${pod} says ${text}`, () => node.containerLog(pod, 'c').includes(text));

  it('a ConfigMap that comes late starts its pod, and its changes reach the running container', async () => {
    const loop = 'while :; do echo read=$(cat /v/a),$(stat -c %a /e); sleep 0.1; done';
    const volumeMounts = ['v', 'e'].map((name) => ({ name, mountPath: `/${name}` }));
    const volumes = [
      { name: 'v', configMap: { name: 'settings' } },
      { name: 'e', emptyDir: {} },
    ];
    write('reader', `chmod 700 /e; trap 'exit 0' TERM; ${loop}`, volumes, { volumeMounts });
    await eventually('it waits', () => node.log.includes('configmap \\"settings\\" not found'));
    expect(await node.sandboxes('reader')).toBe(0);
    node.write('settings.json', configMap('settings', { a: 'one' }));
    await hasPrinted('reader', 'read=one,700');
    const before = await node.running('reader');
    node.write('settings.json', configMap('settings', { a: 'two' }));
    await hasPrinted('reader', 'read=two,700');
    expect(await node.instances('reader')).toEqual([before]);
    expect(node.containerLog('reader', 'c')).not.toMatch(/read=,|,777$/m);
  });

  it('a Secret reaches file, variable and argument, and is written nowhere else', async () => {
    node.write('token.json', secret('token', { pw: CANARY }));
    const script = `echo lengths=$(cat /s/pw | wc -c),\${#PW},\${#0},$(stat -f -c %T /s); ${SLEEP}`;
    write('keeper', script, [{ name: 's', secret: { secretName: 'token', defaultMode: 0o400 } }], {
      volumeMounts: [{ name: 's', mountPath: '/s' }],
      env: [{ name: 'PW', valueFrom: { secretKeyRef: { name: 'token', key: 'pw' } } }],
      args: ['$(PW)'],
    });
    await hasPrinted('keeper', `lengths=${CANARY.length},${CANARY.length},${CANARY.length},tmpfs`);
    await eventually('the journal is written', () => node.journalText().includes('cri.startContainer'));
    expect(filesOf(node).length).toBeGreaterThan(5);
    expect(filesWithCanary(node)).toEqual([]);
    expect(node.log).not.toContain(CANARY);
    expect(JSON.stringify(await node.context('kubelet/pods'))).not.toContain(CANARY);
  });

  it('an error of the runtime does not tell a Secret', async () => {
    node.write('command.json', secret('command', { program: CANARY }));
    write('broken', '', [], {
      env: [{ name: 'P', valueFrom: { secretKeyRef: { name: 'command', key: 'program' } } }],
      command: ['$(P)'],
    });
    await eventually('it fails', () => node.log.includes('RunContainerError') || node.log.includes('executable file'));
    await eventually('its status is seen', () => node.journalText().includes('StartError'));
    expect(node.log).not.toContain(CANARY);
    expect(filesWithCanary(node)).toEqual([]);
    node.remove('broken.json');
    await node.gone('broken');
  });

  it('a variable has what an init container left in a file, which is written nowhere else', async () => {
    const [half, rest] = [CANARY.slice(0, 9), CANARY.slice(9)];
    const script = `printf "A='%s%s'" ${half} ${rest} > /e/a.env`;
    const [init] = shellPod('i', node.image, script).spec.containers;
    const fileKeyRef = { volumeName: 'e', path: 'a.env', key: 'A' };
    const pod = shellPod('heir', node.image, `echo length=\${#A},$0; ${SLEEP}`, {
      initContainers: [{ ...init, name: 'i', volumeMounts: [{ name: 'e', mountPath: '/e' }] }],
      volumes: [{ name: 'e', emptyDir: {} }],
    });
    const [only] = pod.spec.containers;
    const heir = { ...only, env: [{ name: 'A', valueFrom: { fileKeyRef } }], args: ['x$(A)'] };
    node.write('heir.json', { ...pod, spec: { ...pod.spec, containers: [heir] } });
    await hasPrinted('heir', `length=${CANARY.length},x${CANARY}`);
    const found = filesWithCanary(node).filter((path) => !path.includes('/heir-node1') && !path.includes('/logs/'));
    expect(found).toEqual([expect.stringMatching(/kubernetes\.io~empty-dir\/e\/a\.env$/)]);
    expect(node.log).not.toContain(CANARY);
  });

  it('a part of a volume is all that its container sees', async () => {
    const mount = { volumeMounts: [{ name: 'e', mountPath: '/sub', subPathExpr: '$(POD)/b' }] };
    const env = [{ name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }];
    write('part', `touch /sub/here; ls /sub; echo ready; ${SLEEP}`, [{ name: 'e', emptyDir: {} }], { ...mount, env });
    await hasPrinted('part', 'ready');
    expect(readdirSync(join(node.rootDir, 'pods'), { recursive: true })).toContainEqual(
      expect.stringMatching(/kubernetes\.io~empty-dir\/e\/part-node1\/b\/here$/),
    );
    expect(mounts(node).filter((line) => line.includes('/volume-subpaths/e/c/0 '))).toHaveLength(1);
  });

  it('what a container mounts in a volume reaches those that ask for it, and no other', async () => {
    const waiting = (file: string) => `while [ ! -e ${file} ]; do sleep 0.1; done`;
    const looking = `${waiting('/v/done')}; [ -e /v/m/it ] && echo sees it || echo sees nothing`;
    const containers = [
      [
        'Bidirectional',
        `${waiting('/v/c1')}; ${waiting('/v/c2')}; mkdir /v/m; mount -t tmpfs t /v/m; touch /v/m/it /v/done`,
      ],
      ['HostToContainer', `touch /v/c1; ${looking}`],
      ['None', `touch /v/c2; ${looking}`],
    ].map(([mountPropagation, script], at) => ({
      ...shellPod('spreader', node.image, `${script}; ${SLEEP}`).spec.containers[0],
      name: `c${at}`,
      securityContext: { privileged: at === 0 },
      volumeMounts: [{ name: 'v', mountPath: '/v', mountPropagation }],
    }));
    node.write(
      'spreader.json',
      shellPod('spreader', node.image, '', { volumes: [{ name: 'v', emptyDir: {} }], containers }),
    );
    const reports = (container: string, what: string) =>
      eventually(`${container} ${what}`, () => node.containerLog('spreader', container).includes(what));
    await Promise.all([reports('c1', 'sees it'), reports('c2', 'sees nothing')]);
    const mounted = () =>
      mounts(node)
        .find((line) => line.includes('/kubernetes.io~empty-dir/v/m '))
        ?.split(' ')[4];
    expect(existsSync(join(mounted()!, 'it'))).toBe(true);
    node.remove('spreader.json');
    await node.gone('spreader');
    await eventually('it is mounted no more', () => mounted() === undefined);
  });

  it('nothing of a pod stays mounted or on disk, also when its agent was killed meanwhile', async () => {
    const volumes = [
      { name: 'm', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
      { name: 'd', downwardAPI: { items: [{ path: 'n', fieldRef: { fieldPath: 'metadata.name' } }] } },
    ];
    const volumeMounts = [
      { name: 'm', mountPath: '/m', subPath: 'x' },
      { name: 'd', mountPath: '/d' },
    ];
    const script = `cat /d/n; df -k /m | tail -1; stat -c 'part=%a,%u,%g' /m; ${SLEEP}`;
    write('leaver', script, volumes, { volumeMounts }, { securityContext: { fsGroup: 123, runAsUser: 1001 } });
    await hasPrinted('leaver', 'leaver-node1');
    await hasPrinted('leaver', ' 1024 ');
    await hasPrinted('leaver', 'part=3777,0,123');
    const uid = (await node.context('kubelet/status')) as { pods: Record<string, { uid: string; name: string }> };
    const pod = Object.values(uid.pods).find(({ name }) => name === 'leaver-node1')?.uid ?? '';
    const folder = join(node.rootDir, 'pods', pod);
    expect(mounts(node).filter((line) => line.includes(folder))).toHaveLength(3);
    await node.stop('SIGKILL');
    node.remove('leaver.json');
    await node.start();
    await node.gone('leaver');
    await eventually('its folder is gone', () => !existsSync(folder));
    expect(mounts(node).filter((line) => line.includes(folder))).toEqual([]);
  });

  it('the journals verify and replay', async () => {
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
  });
});

describe.skipIf(needsMounts)('volumes on the embedded runtime', () => {
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  beforeAll(async () => {
    runtime = await embedded.start();
    node = new ObservedNode(runtime);
    await node.start();
  });
  afterAll(() => close(node, runtime));

  it('a Secret is written to its volume only', async () => {
    node.write('token.json', secret('token', { pw: CANARY }));
    const volumes = [{ name: 's', secret: { secretName: 'token' } }];
    const pod = shellPod('keeper', node.image, SLEEP, { volumes });
    const [only] = pod.spec.containers;
    const containers = [{ ...only, volumeMounts: [{ name: 's', mountPath: '/s' }] }];
    node.write('keeper.json', { ...pod, spec: { ...pod.spec, containers } });
    await node.running('keeper');
    const written = readdirSync(join(node.rootDir, 'pods'), { recursive: true, encoding: 'utf8' });
    const file = written.find((path) => /kubernetes\.io~secret\/s\/\.\.\d[^/]*\/pw$/.test(path)) ?? '';
    expect(readText(join(node.rootDir, 'pods', file))).toBe(CANARY);
    expect(filesWithCanary(node)).toEqual([]);
    expect(node.log).not.toContain(CANARY);
  });
});
