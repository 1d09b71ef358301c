import { chmodSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEmbeddedRuntime } from '../../../src/actors/embedded-runtime/embedded-runtime.ts';
import type * as cri from '../../../src/machines/model/api/cri.ts';
import { eventually, isProcess, Node } from './harness.ts';

let node: Node;
beforeAll(async () => {
  node = await new Node().start();
});
afterAll(() => node.destroy());

const sandboxStatus = (pod_sandbox_id: string) =>
  node.client.call<cri.PodSandboxStatusResponse>('PodSandboxStatus', { pod_sandbox_id });

describe('a sandbox', () => {
  it('is ready with the address of the host, and not ready when stopped', async () => {
    const id = await node.pod();
    const { status } = await sandboxStatus(id);
    expect(status).toMatchObject({ id, state: 'SANDBOX_READY', runtime_handler: '' });
    expect(status?.network?.ip).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
    await node.client.call('StopPodSandbox', { pod_sandbox_id: id });
    await node.client.call('StopPodSandbox', { pod_sandbox_id: id });
    expect((await sandboxStatus(id)).status).toMatchObject({ state: 'SANDBOX_NOTREADY' });
  });

  it('of a pod on the host network has no address of its own, and keeps the options it asked for', async () => {
    const options: cri.NamespaceOption = { network: 'NODE', pid: 'CONTAINER' };
    const id = await node.pod({
      ...node.sandboxConfig(),
      linux: { security_context: { namespace_options: options } },
    });
    const { status } = await sandboxStatus(id);
    expect(status?.network?.ip).toBe('');
    expect(status?.linux?.namespaces?.options).toMatchObject(options);
  });

  it('of a pod with users of its own is refused: its containers would be root of the machine', async () => {
    const config = {
      ...node.sandboxConfig(),
      linux: { security_context: { namespace_options: { userns_options: { mode: 'POD' } } } },
    };
    await expect(node.client.call('RunPodSandbox', { config })).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
      message: expect.stringContaining('user namespaces are not supported: containers run as plain host processes'),
    });
  });

  it('takes its containers with it', async () => {
    const container = await node.run('trap "" TERM; sleep 90');
    const pid = await node.pid(container);
    const { containers } = await node.client.call<cri.ListContainersResponse>('ListContainers', {
      filter: { id: container },
    });
    const pod_sandbox_id = containers[0]?.pod_sandbox_id ?? '';
    await node.client.call('StopPodSandbox', { pod_sandbox_id });
    expect(isProcess(pid)).toBe(false);
    expect(await node.status(container)).toMatchObject({ state: 'CONTAINER_EXITED', exit_code: 137 });
    await expect(node.create(pod_sandbox_id, { metadata: { name: 'late' } })).rejects.toThrow('is not running');
    await node.client.call('RemovePodSandbox', { pod_sandbox_id });
    await node.client.call('RemovePodSandbox', { pod_sandbox_id });
    await expect(node.status(container)).rejects.toMatchObject({ code: status.NOT_FOUND });
    await expect(sandboxStatus(pod_sandbox_id)).rejects.toMatchObject({
      code: status.NOT_FOUND,
      details: `an error occurred when try to find sandbox "${pod_sandbox_id}": not found`,
    });
  });

  it('and a container reserve their names until they are removed', async () => {
    const config = node.sandboxConfig('twin');
    const pod = 'twin_default_uid-twin_0';
    const id = await node.pod(config);
    await expect(node.pod(config)).rejects.toMatchObject({
      code: status.UNKNOWN,
      details: `failed to reserve sandbox name "${pod}": name "${pod}" is reserved for "${id}"`,
    });
    const container = await node.create(id, { command: ['true'] });
    const name = 'app_twin_default_uid-twin_0';
    await expect(node.create(id, { command: ['true'] })).rejects.toMatchObject({
      details: `failed to reserve container name "${name}": name "${name}" is reserved for "${container}"`,
    });
    await node.create(id, { metadata: { name: 'app', attempt: 1 }, command: ['true'] });
    await node.client.call('RemovePodSandbox', { pod_sandbox_id: id });
    await node.pod(config);
  });

  it('needs metadata, and no handler but the default', async () => {
    await expect(node.client.call('RunPodSandbox', {})).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(
      node.client.call('RunPodSandbox', { config: node.sandboxConfig(), runtime_handler: 'kata' }),
    ).rejects.toThrow('no runtime for "kata" is configured');
    await expect(node.create('feed', {})).rejects.toMatchObject({ code: status.NOT_FOUND });
  });
});

it('lists are filtered by id, state, sandbox and labels', async () => {
  const own = { mine: 'yes' };
  const [first, second] = [
    await node.pod({ ...node.sandboxConfig(), labels: { ...own, n: '1' } }),
    await node.pod({ ...node.sandboxConfig(), labels: { ...own, n: '2' } }),
  ];
  const container = await node.create(first, { command: ['sleep', '91'], labels: own });
  await node.client.call('StartContainer', { container_id: container });
  await node.client.call('StopPodSandbox', { pod_sandbox_id: second });
  const sandboxes = async (filter: cri.PodSandboxFilter) =>
    (await node.client.call<cri.ListPodSandboxResponse>('ListPodSandbox', { filter })).items.map(({ id }) => id);
  expect((await sandboxes({ label_selector: own })).toSorted()).toEqual([first, second].toSorted());
  expect(await sandboxes({ label_selector: { ...own, n: '2' } })).toEqual([second]);
  expect(await sandboxes({ label_selector: own, state: { state: 'SANDBOX_READY' } })).toEqual([first]);
  expect(await sandboxes({ id: second.slice(0, 13) })).toEqual([second]);
  expect(await sandboxes({ id: 'feed' })).toEqual([]);
  const containers = async (filter: cri.ContainerFilter) =>
    (await node.client.call<cri.ListContainersResponse>('ListContainers', { filter })).containers.map(({ id }) => id);
  expect(await containers({ pod_sandbox_id: first })).toEqual([container]);
  expect(await containers({ pod_sandbox_id: second })).toEqual([]);
  expect(await containers({ label_selector: own, state: { state: 'CONTAINER_RUNNING' } })).toEqual([container]);
  expect(await containers({ label_selector: own, state: { state: 'CONTAINER_EXITED' } })).toEqual([]);
});

it('the event stream tells the life of a pod in order, with the status of all of it', async () => {
  const events: cri.ContainerEventResponse[] = [];
  const stream = await node.client.events((event) => void events.push(event));
  const pod = await node.pod();
  const id = await node.create(pod, { command: ['/bin/sh', '-c', 'exit 2'] });
  await node.client.call('StartContainer', { container_id: id });
  await node.exited(id);
  await node.client.call('RemovePodSandbox', { pod_sandbox_id: pod });
  await eventually('the last event comes', () => events.filter((event) => event.container_id === pod).length === 4);
  stream.cancel();
  const names = new Map([
    [pod, 'pod'],
    [id, 'app'],
  ]);
  expect(events.map((event) => `${names.get(event.container_id)} ${event.container_event_type}`)).toEqual([
    'pod CONTAINER_CREATED_EVENT',
    'pod CONTAINER_STARTED_EVENT',
    'app CONTAINER_CREATED_EVENT',
    'app CONTAINER_STARTED_EVENT',
    'app CONTAINER_STOPPED_EVENT',
    'pod CONTAINER_STOPPED_EVENT',
    'app CONTAINER_DELETED_EVENT',
    'pod CONTAINER_DELETED_EVENT',
  ]);
  expect(events[4]).toMatchObject({
    pod_sandbox_status: { id: pod, state: 'SANDBOX_READY' },
    containers_statuses: [{ id, state: 'CONTAINER_EXITED', exit_code: 2 }],
  });
  expect(events[7]).toMatchObject({ pod_sandbox_status: null, containers_statuses: [] });
});

it('a listener that does not read is sent away; the others hear everything', async () => {
  let heard = 0;
  const reading = await node.client.events(() => void heard++);
  const idle = await node.client.events(() => {});
  idle.pause();
  const ended = new Promise<{ code: status }>((resolve) => idle.once('error', resolve));
  const annotations = { much: 'x'.repeat(20_000) };
  for (let batch = 0; batch < 30; batch++) {
    const pods = await Promise.all(
      Array.from({ length: 10 }, () => node.pod({ ...node.sandboxConfig(), annotations })),
    );
    await Promise.all(pods.map((pod_sandbox_id) => node.client.call('RemovePodSandbox', { pod_sandbox_id })));
  }
  idle.resume();
  expect(await ended).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  await eventually('the reader heard all', () => heard === 30 * 10 * 4);
  reading.cancel();
});

describe('the runtime', () => {
  it('is ready, says who it is and that it does not isolate', async () => {
    expect(await node.client.call('Version')).toMatchObject({
      runtime_name: 'statelet-embedded',
      runtime_api_version: 'v1',
    });
    const answer = await node.client.call<cri.StatusResponse>('Status', { verbose: true });
    expect(answer.status?.conditions.map(({ type, status }) => [type, status])).toEqual([
      ['RuntimeReady', true],
      ['NetworkReady', true],
    ]);
    expect(answer.status?.conditions[0]?.message).toContain('no isolation');
    expect(answer.info['config']).toContain('"isolation":"none"');
  });

  it.each(['CheckpointContainer', 'UpdateContainerResources'])('answers UNIMPLEMENTED to %s', async (method) => {
    await expect(node.client.call(method)).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
      details: expect.stringContaining('not possible in the embedded runtime'),
    });
  });

  it('keeps its socket to its owner and refuses a folder that is open to others', async () => {
    expect(statSync(node.socket).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(node.socket)).mode & 0o777).toBe(0o700);
    const open = mkdtempSync(join(tmpdir(), 'statelet-open-'));
    chmodSync(open, 0o755);
    const options = { socket: join(open, 's'), rootDir: join(open, 'root') };
    await expect(startEmbeddedRuntime(options)).rejects.toThrow('is open to others (mode 755)');
    expect(existsSync(join(options.rootDir, 'runtime.json'))).toBe(false);
    rmSync(open, { recursive: true });
  });

  it('refuses paths that cannot work', async () => {
    const rootDir = mkdtempSync(join(tmpdir(), 'statelet-paths-'));
    await expect(startEmbeddedRuntime({ socket: 'relative', rootDir })).rejects.toThrow('must be an absolute path');
    const long = join(rootDir, 'x'.repeat(100), 's');
    await expect(startEmbeddedRuntime({ socket: long, rootDir })).rejects.toThrow('longer than 107 bytes');
    rmSync(rootDir, { recursive: true });
  });
});

describe('images', () => {
  const image = (name: string) => ({ image: { image: name } });
  const pull = (name: string) => node.client.call<cri.PullImageResponse>('PullImage', image(name));
  const find = async (name: string) =>
    (await node.client.call<cri.ImageStatusResponse>('ImageStatus', image(name))).image;

  it('the built-in one is there under each of its names, pinned, and cannot be removed', async () => {
    const found = await find('statelet.local/host');
    expect(found).toMatchObject({ repo_tags: ['statelet.local/host:latest'], pinned: true });
    for (const name of [found?.id, found?.repo_digests[0]]) expect(await find(name ?? '')).toEqual(found);
    await expect(node.client.call('RemoveImage', image('statelet.local/host'))).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
    });
  });

  it('names of its own registry can be pulled and removed; a container can use them', async () => {
    expect(await find('statelet.local/tool:v1')).toBeNull();
    await expect(node.create(await node.pod(), image('statelet.local/tool:v1'))).rejects.toMatchObject({
      code: status.NOT_FOUND,
    });
    const { image_ref } = await pull('statelet.local/tool:v1');
    expect(await pull('statelet.local/tool:v1')).toEqual({ image_ref });
    const id = await node.run('true', image('statelet.local/tool:v1'));
    expect(await node.exited(id)).toMatchObject({
      exit_code: 0,
      image_ref,
      image: { image: 'statelet.local/tool:v1' },
    });
    const listed = await node.client.call<cri.ListImagesResponse>('ListImages');
    expect(listed.images.map(({ repo_tags }) => repo_tags[0])).toContain('statelet.local/tool:v1');
    await node.client.call('RemoveImage', image(image_ref));
    await node.client.call('RemoveImage', image('statelet.local/tool:v1'));
    expect(await find('statelet.local/tool:v1')).toBeNull();
  });

  it('others do not exist, and the error gives advice', async () => {
    await expect(pull('docker.io/library/nginx:1.27')).rejects.toMatchObject({
      code: status.NOT_FOUND,
      details: expect.stringContaining('use the image "statelet.local/host:latest"'),
    });
    await expect(pull('Not An Image')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(pull('')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it('their filesystem is the one of the runtime', async () => {
    const { image_filesystems } = await node.client.call<cri.ImageFsInfoResponse>('ImageFsInfo');
    expect(image_filesystems[0]?.fs_id).toEqual({ mountpoint: node.root });
    expect(Number(image_filesystems[0]?.used_bytes?.value)).toBeGreaterThan(0);
  });
});
