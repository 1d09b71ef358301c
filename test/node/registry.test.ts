/**
 * Images from real registries, without and with a login, in a real containerd: policies, all three kinds of
 * credentials, who may use an image that another pod pulled, and where a password is written.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { plugin, response, writeProviders } from '../actors/image/support.ts';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually, SLEEP } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { LOGIN, Registry, registryAvailable } from '../support/registry.ts';
import { requirement } from '../support/require.ts';

const containerd = runtimes.find(({ name }) => name === 'containerd')!;
const isSkipped = [
  requirement('containerd', containerdAvailable()).skip,
  requirement('registry', registryAvailable()).skip,
].includes(true);

const dockerConfig = (host: string, { username, password } = LOGIN) =>
  JSON.stringify({ auths: { [host]: { auth: Buffer.from(`${username}:${password}`).toString('base64') } } });

describe.skipIf(isSkipped)('images from a registry', () => {
  const open = new Registry({ locked: false });
  const locked = new Registry({ locked: true });
  let runtime: RuntimeInUse;
  let node: ObservedNode;

  beforeAll(async () => {
    [runtime] = await Promise.all([containerd.start(), open.start(), locked.start()]);
    const configuration = 'serializeImagePulls: false\nregistryPullQPS: 0';
    node = new ObservedNode(runtime, { configuration });
    await node.start();
  });
  afterAll(async () => {
    for (const name of readdirSync(node.manifests)) node.remove(name);
    await node.close();
    await Promise.all([runtime.close(), open.close(), locked.close()]);
  });

  function run(name: string, image: string, { policy = 'IfNotPresent', secrets = [] as readonly string[] } = {}) {
    const container = { name: 'c', image, imagePullPolicy: policy, command: ['sh', '-c', SLEEP] };
    const spec = {
      terminationGracePeriodSeconds: 1,
      imagePullSecrets: secrets.map((each) => ({ name: each })),
      containers: [container],
    };
    node.write(`${name}.json`, { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec });
  }
  function secret(name: string, config: string) {
    const data = { '.dockerconfigjson': Buffer.from(config).toString('base64') };
    const type = 'kubernetes.io/dockerconfigjson';
    node.write(`${name}.json`, { apiVersion: 'v1', kind: 'Secret', metadata: { name }, type, data });
  }
  const waits = (pod: string, reason: string) =>
    eventually(`${pod} waits with ${reason}`, async () => {
      const waiting = (await node.status(pod))?.containerStatuses?.[0]?.state?.waiting;
      return waiting?.reason === reason ? waiting : null;
    });
  const hasLogged = (text: string) => eventually(`it says ${text}`, () => node.log.includes(text));

  it('are pulled once for all pods that need one, and again for a pod that always pulls', async () => {
    const image = await open.push('policies/x');
    for (const name of ['one', 'two', 'three']) run(name, image);
    for (const name of ['one', 'two', 'three']) await node.running(name);
    const first = open.pullsOf('policies/x');
    expect(first).toBeGreaterThan(0);
    run('four', image);
    await node.running('four');
    expect(open.pullsOf('policies/x')).toBe(first);
    run('five', image, { policy: 'Always' });
    await node.running('five');
    await hasLogged(`Successfully pulled image \\"${image}\\" in `);
  });

  it('are not pulled by a pod that must not; that they are missing is said in the words of the registry', async () => {
    const image = await open.push('never/x');
    run('never', image, { policy: 'Never' });
    const { message } = await waits('never', 'ErrImageNeverPull');
    expect(message).toBe(`Container image "${image}" is not present with pull policy of Never`);
    const missing = `${open.host}/never/x:nosuch`;
    run('missing', missing);
    const refusal = await waits('missing', 'ErrImagePull');
    const [outer, why] = (refusal.message ?? '').split(/: failed to resolve (?:image|reference "[^"]+"): /);
    expect(outer).toBe(`rpc error: code = NotFound desc = failed to pull and unpack image "${missing}"`);
    expect(why).toBe(`${missing}: not found`);
    const backOff = await waits('missing', 'ImagePullBackOff');
    expect(backOff.message).toBe(`Back-off pulling image "${missing}": ErrImagePull: ${refusal.message}`);
  });

  it('are pulled with the pull secret of their pod, and given to no pod without it', async () => {
    const image = await locked.push('private/x');
    secret('login', dockerConfig(locked.host));
    run('owner', image, { secrets: ['login', 'nosuch'] });
    await node.running('owner');
    await hasLogged(
      'Unable to retrieve some image pull secrets (nosuch); attempting to pull the image may not succeed.',
    );
    run('stranger', image);
    const { message } = await waits('stranger', 'ErrImagePull');
    expect(message).toMatch(/401 Unauthorized|authorization failed: no basic auth credentials/);
    const pulls = locked.pullsOf('private/x');
    run('heir', image, { secrets: ['login'] });
    await node.running('heir');
    expect(locked.pullsOf('private/x')).toBe(pulls);
  });

  it('with a wrong password are refused until the secret is right', async () => {
    const image = await locked.push('wrong/x');
    secret('wrong', dockerConfig(locked.host, { ...LOGIN, password: 'not-the-password' }));
    run('patient', image, { secrets: ['wrong'] });
    const { message } = await waits('patient', 'ErrImagePull');
    expect(message).toContain('401 Unauthorized');
    secret('wrong', dockerConfig(locked.host));
    await node.running('patient');
  });

  it('are pulled with the docker configuration of the node, for every pod', async () => {
    const image = await locked.push('node/x');
    const path = join(node.rootDir, 'config.json');
    writeFileSync(path, dockerConfig(locked.host), { mode: 0o600 });
    run('node-one', image);
    await node.running('node-one');
    writeFileSync(path, '{}');
    run('node-two', image);
    await node.running('node-two');
    const records = join(node.rootDir, 'image_manager/pulled');
    const contents = readdirSync(records).map((name) => readFileSync(join(records, name), 'utf8'));
    const mine = contents.filter((text) => text.includes('/node/x'));
    expect(mine).toHaveLength(1);
    expect(JSON.parse(mine[0] ?? '').credentialMapping[`${locked.host}/node/x`]).toEqual({ nodePodsAccessible: true });
  });

  it('are pulled with what a plugin answers, after a restart with it', async () => {
    const image = await locked.push('plugin/x');
    plugin(node.directory, 'helper', `echo '${response({ [locked.host]: LOGIN })}'`);
    const apiVersion = 'credentialprovider.kubelet.k8s.io/v1';
    const helper = { name: 'helper', apiVersion, matchImages: [locked.host], defaultCacheDuration: '1m' };
    const config = writeProviders(node.directory, [helper]);
    await node.stop();
    await node.start([
      `--image-credential-provider-config=${config}`,
      `--image-credential-provider-bin-dir=${node.directory}`,
    ]);
    run('plugged', image);
    await node.running('plugged');
  });

  it('keep their back-off over a restart of the agent', async () => {
    const missing = `${open.host}/never/again:nosuch`;
    run('later', missing);
    await waits('later', 'ImagePullBackOff');
    await eventually('it is remembered', () => {
      const { pulls = {} } = JSON.parse(readFileSync(join(node.journal, 'soft-state.json'), 'utf8'));
      return Object.keys(pulls).some((key) => key.endsWith(missing));
    });
    await node.stop('SIGKILL');
    await node.start();
    const { message } = await waits('later', 'ImagePullBackOff');
    expect(message).toContain(`Back-off pulling image "${missing}": ErrImagePull: `);
  });

  it('leave no password in journal, log or any file of the node', async () => {
    const shapes = [LOGIN.password, dockerConfig(locked.host), 'not-the-password'].flatMap((text) => [
      text,
      Buffer.from(`${LOGIN.username}:${text}`).toString('base64'),
    ]);
    const files = readdirSync(node.rootDir, { recursive: true, encoding: 'utf8' }).map((name) =>
      join(node.rootDir, name),
    );
    const written = files.filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
    expect(written.some((path) => path.startsWith(node.journal))).toBe(true);
    expect(written.filter((path) => shapes.some((shape) => contentOf(path).includes(shape)))).toEqual([]);
    for (const shape of shapes) expect(node.log).not.toContain(shape);
  });

  it('are in journals that verify and replay', async () => {
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
  });
});

/** The content of a file that its writer may rename during the read, as the journal does with each new blob. */
function contentOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}
