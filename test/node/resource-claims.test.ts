/**
 * Dynamic resources in a real pod of a cluster: a driver registers and prepares the claim of a pod, containerd gives
 * the container the devices of the driver's CDI file, and the driver releases the claim. The test acts as the
 * scheduler.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { exchange } from '../actors/server/exchange.ts';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { type DraDriver, startDraDriver } from '../fakes/dra-driver.ts';
import { type Containerd, containerdAvailable, containerdMajor, startContainerd } from '../support/containerd.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { patient } from '../support/patience.ts';
import { askPodResources } from '../support/pod-resources.ts';
import { requirement } from '../support/require.ts';
import { Rest } from '../support/rest.ts';

const DRIVER = 'gpu.example.test';
const GROUP = 'resource.k8s.io/v1';
const LIMITS = { timeout: patient(240_000) };
const until: typeof eventually = (what, look) => eventually(what, look, 60_000);

/** Requests to containerd 1.6 have no CDI devices. */
const unavailable = () => containerdAvailable() ?? (containerdMajor() < 2 ? 'containerd 2 is not installed' : null);
const { skip } = requirement('containerd', unavailable());

let containerd: Containerd;
let server: ApiServer;
let node: TestNode;
let driver: DraDriver;
let admin: Rest;

// oxlint-disable-next-line typescript/no-explicit-any -- objects of any kind
const pod = (name = 'p'): any => server.store.get('v1', 'pods', name, 'default');
const state = () => JSON.parse(JSON.parse(readFileSync(join(node.rootDir, 'dra_manager_state'), 'utf8')).Data);
const reasons = () =>
  server.store.list('v1', 'events', 'default').map(({ reason, message }) => `${String(reason)}: ${String(message)}`);
const metrics = async () => (await exchange('GET', '/metrics', { port: node.port })).body.toString();

async function listen(): Promise<void> {
  const registry = join(node.rootDir, 'plugins_registry');
  await until('the folder of plugins', () => existsSync(registry));
  const own = join(node.rootDir, `plugins/${DRIVER}`);
  mkdirSync(own, { recursive: true });
  driver = await startDraDriver({
    endpoint: join(own, 'dra.sock'),
    registration: join(registry, `${DRIVER}-reg.sock`),
    hasHealth: true,
  });
  await until('the driver is registered', () => driver.statuses.at(-1)?.plugin_registered);
}

/** The pod, and its claim as allocated by a scheduler. */
async function create(name: string, claim: string): Promise<void> {
  const script = `[ "$GPU" = ${claim} ] || exit 9; trap 'exit 0' TERM; sleep 3600 & wait`;
  const { metadata } = server.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: 'node1',
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      resourceClaims: [{ name: 'gpu', resourceClaimName: claim }],
      containers: [
        {
          name: 'app',
          image: containerd.image,
          command: ['sh', '-c', script],
          resources: { claims: [{ name: 'gpu', request: 'gpu' }] },
        },
      ],
    },
  });
  const path = `/apis/${GROUP}/namespaces/default/resourceclaims`;
  const spec = { devices: { requests: [{ name: 'gpu', exactly: { deviceClassName: 'gpu' } }] } };
  const made = await admin.post(path, { apiVersion: GROUP, kind: 'ResourceClaim', metadata: { name: claim }, spec });
  const results = [{ driver: DRIVER, pool: 'node1', device: `${claim}-device`, request: 'gpu' }];
  const reservedFor = [{ resource: 'pods', name, uid: metadata.uid }];
  await admin.put(`${path}/${claim}/status`, {
    ...made,
    status: { allocation: { devices: { results } }, reservedFor },
  });
}

/** A driver's file for the runtime: the device of this claim sets a variable. */
function writeCdi(claim: string): void {
  const folder = join(containerd.directory, 'cdi');
  mkdirSync(folder, { recursive: true });
  const devices = [{ name: claim, containerEdits: { env: [`GPU=${claim}`] } }];
  writeFileSync(join(folder, `${claim}.json`), JSON.stringify({ cdiVersion: '0.6.0', kind: `${DRIVER}/gpu`, devices }));
}

describe.skipIf(skip)('a pod with a claim', () => {
  beforeAll(async () => {
    containerd = await startContainerd();
  });
  afterAll(() => containerd.close());
  beforeEach(async () => {
    server = await startApiServer({ tokenMinSeconds: 1 });
    admin = new Rest(await server.kubeconfig('admin'));
    const flags = [`--kubeconfig=${await server.kubeconfig('system:node:node1')}`, '--anonymous-auth=true'];
    node = new TestNode({ endpoint: containerd.endpoint, flags });
    await node.start();
  });
  afterEach(async () => {
    driver?.close();
    await node.close();
    await server.close();
  });

  it('has its device while it runs, over a crash of the agent, and gives it back', LIMITS, async () => {
    await listen();
    writeCdi('mine');
    await create('p', 'mine');
    await until('Running', () => pod()?.status?.phase === 'Running');
    expect(driver.calls).toEqual(['prepare default/mine']);
    expect(state().ClaimInfoStateList).toMatchObject([{ ClaimName: 'mine', PodUIDs: { [pod().metadata.uid]: {} } }]);
    expect(await askPodResources(join(node.rootDir, 'pod-resources/kubelet.sock'), 'List')).toMatchObject({
      podResources: [
        {
          name: 'p',
          containers: [
            {
              dynamicResources: [
                {
                  claimName: 'mine',
                  claimNamespace: 'default',
                  claimResources: [
                    {
                      driverName: DRIVER,
                      poolName: 'node1',
                      deviceName: 'mine-device',
                      cdiDevices: [{ name: `${DRIVER}/gpu=mine` }],
                    },
                  ],
                },
              ],
            },
          ],
        },
      ],
    });
    driver.report([
      { device: { pool_name: 'node1', device_name: 'mine-device' }, health: 'UNHEALTHY', message: 'hot' },
    ]);
    const health = () => pod().status.containerStatuses[0].allocatedResourcesStatus?.[0];
    await until('its health', () => health()?.resources[0].health === 'Unhealthy');
    expect(health()).toEqual({
      name: 'claim:gpu/gpu',
      resources: [{ resourceID: `${DRIVER}/gpu=mine`, health: 'Unhealthy', message: 'hot' }],
    });
    const text = await metrics();
    expect(text).toContain('dra_resource_claims_in_use{driver_name="<any>"} 1');
    expect(text).toContain(`dra_resource_claims_in_use{driver_name="${DRIVER}"} 1`);
    expect(text).toContain(
      'dra_operations_duration_seconds_count{is_error="false",operation_name="PrepareResources"} 1',
    );
    expect(text).toMatch(
      /dra_grpc_operations_duration_seconds_count\{driver_name="gpu.example.test",grpc_status_code="OK",method_name=".*NodePrepareResources"\} 1/,
    );

    await node.stop('SIGKILL');
    await node.start();
    await until('the driver is registered again', () => driver.statuses.length > 1);
    server.delete('v1', 'pods', 'p');
    await until('gone', () => pod() === undefined);
    expect(driver.calls).toEqual(['prepare default/mine', 'unprepare default/mine']);
    expect(state().ClaimInfoStateList ?? []).toEqual([]);
    await node.stop();
    expect(node.statelet('replay', node.journal)).toMatchObject({ code: 0 });
  });

  it('waits for its driver, then for what the driver can do', LIMITS, async () => {
    writeCdi('later');
    await create('p', 'later');
    const refusal = (text: string) =>
      `FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: ${text}`;
    await until('it waits', () => reasons().includes(refusal(`DRA driver ${DRIVER} is not registered`)));
    await listen();
    driver.answer = () => ({ error: 'no power' });
    const refused = refusal('NodePrepareResources failed for ResourceClaim later: no power');
    await until('it is refused', () => reasons().includes(refused));
    driver.answer = () => ({
      devices: [{ pool_name: 'node1', device_name: 'd', cdi_device_ids: [`${DRIVER}/gpu=later`] }],
    });
    await until('Running', () => pod()?.status?.phase === 'Running');
  });
});
