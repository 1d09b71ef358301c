/** Credentials from all three places, with real plugins. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { perform } from '../../support/host-ports.ts';
import { API, credentialsIn, plugin, response, writeProviders } from './support.ts';

const logins = (name: string) => ({ 'a.io': { username: name, password: 'p' } });

describe('the docker configuration of the node', () => {
  it.each([
    ['config.json of the root directory', ['root/config.json', 'home/.docker/config.json'], ['root/config.json']],
    ['config.json of the home', ['home/.docker/config.json', 'root/.dockercfg'], ['home/.docker/config.json']],
    ['.dockercfg of the root directory', ['root/.dockercfg', 'home/.dockercfg'], ['root/.dockercfg']],
    ['.dockerconfigjson at last', ['root/.dockerconfigjson'], ['root/.dockerconfigjson']],
    ['none', [], []],
  ])('is %s', async (_, files, expected) => {
    const { folder, lookup } = await credentialsIn();
    for (const file of files) {
      mkdirSync(join(folder, file, '..'), { recursive: true });
      const content = file.endsWith('.dockercfg') ? logins(file) : { auths: logins(file) };
      writeFileSync(join(folder, file), JSON.stringify(content));
    }
    expect(await lookup('a.io/x')).toEqual(expected.map((file) => `${file}:p`));
  });

  it('goes on to the next file when one is damaged', async () => {
    const { root, lookup } = await credentialsIn();
    writeFileSync(join(root, 'config.json'), '{');
    writeFileSync(join(root, '.dockercfg'), JSON.stringify(logins('u')));
    expect(await lookup('a.io/x')).toEqual(['u:p']);
  });
});

describe('pull secrets', () => {
  it('come before the node, of both types, in the order of the pod', async () => {
    const { root, lookup, secret } = await credentialsIn();
    writeFileSync(join(root, 'config.json'), JSON.stringify({ auths: logins('node') }));
    const secrets = [
      secret('one', logins('one')),
      secret('two', logins('two'), 'kubernetes.io/dockercfg'),
      secret('opaque', logins('three'), 'Opaque'),
    ];
    expect(await lookup('a.io/x', secrets)).toEqual(['one:p of ns/one', 'two:p of ns/two', 'node:p']);
  });

  it('are known by the hash of the kubelet, which has the address of their owner, and sent without it', async () => {
    const { root, ports, secret, vault } = await credentialsIn();
    const auth = Buffer.from('u:p<').toString('base64');
    const secrets = [secret('one', { 'a.io': { auth, email: 'u@a.io' } })];
    const input = { root, repository: 'a.io/x', secrets, pod: null };
    const [found] = (await perform(ports['images.credentials'], input)).credentials;
    const identity = '{"username":"u","password":"p\\u003c","email":"u@a.io"}';
    expect(vault.open(found!.hash)).toBe(createHash('sha256').update(identity).digest('hex'));
    expect(JSON.parse(vault.open(found!.auth))).toEqual({ username: 'u', password: 'p<' });
  });

  it('that are empty have no logins, and null is no text', async () => {
    const { lookup, vault, secret } = await credentialsIn();
    const data = { '.dockerconfigjson': { text: vault.seal('') } };
    const empty = { ...secret('empty', {}), data };
    const secrets = [empty, secret('one', { 'a.io': { username: 'one', password: 'p', auth: null, email: null } })];
    expect(await lookup('a.io/x', secrets)).toEqual(['one:p of ns/one']);
  });

  it('is an error that names the secret and not what it holds', async () => {
    const { lookup, vault } = await credentialsIn();
    const data = { '.dockerconfigjson': { text: vault.seal('hunter2') } };
    const type = 'kubernetes.io/dockerconfigjson';
    const broken = { kind: 'Secret', namespace: 'ns', name: 'bad', type, version: '1', data } as const;
    await expect(lookup('a.io/x', [broken])).rejects.toThrow(
      'pull secret ns/bad: the docker configuration is not JSON',
    );
  });
});

it.each(['Opaque', 'constructor'])('a Secret of the type %s is no login', async (type) => {
  const { lookup } = await credentialsIn();
  const data = { '.dockerconfigjson': { text: '{}' } };
  const other = { kind: 'Secret', namespace: 'ns', name: 'other', type, version: '1', data } as const;
  expect(await lookup('a.io/x', [other])).toEqual([]);
});

describe('pull secrets without measure', () => {
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`h${at}.io`, { username: `${at}`, password: 'p' }]));

  it('are refused when one has more registries than a pull can compare', async () => {
    const { lookup, secret } = await credentialsIn();
    expect(await lookup('h9999.io/x', [secret('large', many(10_000))])).toEqual(['9999:p of ns/large']);
    await expect(lookup('a.io/x', [secret('larger', many(10_001))])).rejects.toThrow(
      'pull secret ns/larger: the docker configuration has 10001 registries, more than the 10000 that are read',
    );
  });

  it('leave decisions their turn between two of them', async () => {
    const { lookup, secret } = await credentialsIn();
    const secrets = Array.from({ length: 20 }, (_, at) => secret(`s${at}`, many(10)));
    let turns = 0;
    const count = () => {
      turns++;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    await lookup('a.io/x', secrets);
    clearImmediate(immediate);
    expect(turns).toBeGreaterThanOrEqual(19);
  });
});

describe('plugins', () => {
  const provider = (more: object = {}) => ({
    name: 'p',
    apiVersion: API,
    matchImages: ['*.io'],
    defaultCacheDuration: '1h',
    ...more,
  });

  async function withPlugin(script: string, more: object = {}, nowMs = { value: 0 }) {
    const context = await credentialsIn({ now: () => nowMs.value });
    const { folder, binDir, ports } = context;
    plugin(binDir, 'p', script.replaceAll('$FOLDER', folder));
    const config = writeProviders(folder, [provider(more)]);
    await perform(ports['images.registerProviders'], { config, binDir, tokens: true });
    const calls = () => readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n').length;
    return { ...context, calls, nowMs };
  }

  const counted = (auth: object, more: object = {}) => `echo x >> $FOLDER/calls; echo '${response(auth, more)}'`;

  it('gets a request on stdin, its arguments and its environment, and answers on stdout', async () => {
    const script = `cat > $FOLDER/request; echo "$@ $SETTING $HOME" > $FOLDER/asked; echo '${response(logins('u'))}'`;
    const { folder, lookup } = await withPlugin(script, {
      args: ['get', 'it'],
      env: [{ name: 'SETTING', value: 'set' }],
    });
    expect(await lookup('a.io/x/y')).toEqual(['u:p']);
    const request = JSON.parse(readFileSync(join(folder, 'request'), 'utf8'));
    expect(request).toEqual({ kind: 'CredentialProviderRequest', apiVersion: API, image: 'a.io/x/y' });
    expect(readFileSync(join(folder, 'asked'), 'utf8')).toBe(`get it set ${process.env['HOME'] ?? ''}\n`);
  });

  it.skipIf(spawnSync('setsid', ['true']).status !== 0)(
    'is given up though a process of its own outlives it',
    async () => {
      const script = `setsid sh -c 'echo $$ > $FOLDER/pid; head -c 2000000 /dev/zero; exec sleep 1000' & wait`;
      const { folder, lookup, warnings } = await withPlugin(script);
      expect(await lookup('a.io/x')).toEqual([]);
      process.kill(Number(readFileSync(join(folder, 'pid'), 'utf8')), 'SIGKILL');
      expect(warnings.join()).toContain('it answered with more than 1048576 bytes');
    },
  );

  it('is not asked about images that are not its own', async () => {
    const { lookup, warnings } = await withPlugin('exit 1');
    expect(await lookup('a.b.io/x')).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['Image', 2, 3],
    ['Registry', 1, 2],
    ['Global', 1, 1],
  ])('is asked again as its cache key %s says', async (cacheKeyType, afterOther, afterForeign) => {
    const { lookup, calls } = await withPlugin(counted(logins('u'), { cacheKeyType }));
    await lookup('a.io/x');
    await lookup('a.io/x');
    expect(calls()).toBe(1);
    await lookup('a.io/y');
    expect(calls()).toBe(afterOther);
    await lookup('b.io/y');
    expect(calls()).toBe(afterForeign);
  });

  it.each([
    ['its own duration', { cacheDuration: '10s' }, 10_000],
    ['the default', {}, 3_600_000],
  ])('is asked again after %s', async (_, more, ms) => {
    const { lookup, calls, nowMs } = await withPlugin(counted(logins('u'), more));
    await lookup('a.io/x');
    nowMs.value = ms;
    await lookup('a.io/x');
    expect(calls()).toBe(1);
    nowMs.value = ms + 1;
    await lookup('a.io/x');
    expect(calls()).toBe(2);
  });

  it('is not cached when it says so', async () => {
    const { lookup, calls } = await withPlugin(counted(logins('u'), { cacheDuration: '0s' }));
    await lookup('a.io/x');
    await lookup('a.io/x');
    expect(calls()).toBe(2);
  });

  it('is called once for all concurrent requests', async () => {
    const { lookup, calls } = await withPlugin(`sleep 0.2; ${counted(logins('u'))}`);
    await Promise.all([lookup('a.io/x'), lookup('a.io/x'), lookup('a.io/x')]);
    expect(calls()).toBe(1);
  });

  it.each([
    ['fails', 'echo it broke >&2; exit 3', 'exit status 3: it broke\n'],
    ['is killed', 'kill -KILL $$', 'signal: SIGKILL: '],
    ['answers nonsense', 'echo hunter2', 'error decoding credential provider plugin response from stdout'],
    ['has an unknown field', `echo '${response({}, { x: 1 })}'`, 'error decoding credential provider plugin response'],
    [
      'speaks another version',
      `echo '${response({}).replace('/v1', '/v1beta1')}'`,
      `did not match expected apiVersion:${API}, actual apiVersion:${API}beta1`,
    ],
    ['names no cache key', `echo '${response({}, { cacheKeyType: 'x' })}'`, 'valid cacheKeyType: "x"'],
    ['talks forever', 'yes', 'it answered with more than 1048576 bytes'],
  ])('gives nothing when it %s, and that is said', async (_, script, reason) => {
    const { root, lookup, warnings } = await withPlugin(script);
    writeFileSync(join(root, 'config.json'), JSON.stringify({ auths: logins('node') }));
    expect(await lookup('a.io/x')).toEqual(['node:p']);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(reason);
    expect(warnings[0]).not.toContain('hunter2');
  });

  it('that needs a service account is not asked, because there is none', async () => {
    const { lookup, warnings } = await withPlugin('exit 1', {
      tokenAttributes: { serviceAccountTokenAudience: 'x', requireServiceAccount: true, cacheType: 'Token' },
    });
    expect(await lookup('a.io/x')).toEqual([]);
    expect(warnings).toEqual([]);
  });
});

describe('registering plugins', () => {
  const base = { name: 'p', apiVersion: API, matchImages: ['a.io'], defaultCacheDuration: '1h' };
  const token = { serviceAccountTokenAudience: 'x', requireServiceAccount: true, cacheType: 'Token' };
  const at = 'failed to validate credential provider config: providers';

  it.each<[what: string, providers: object[], error: string]>([
    ['none', [], `${at}: Required value: at least 1 item in plugins is required`],
    ['a name twice', [base, base], 'duplicate provider name "p" found in configuration file(s)'],
    [
      'a name that leads away',
      [{ ...base, name: '..' }],
      `${at}.name: Invalid value: "..": provider name cannot be '..'`,
    ],
    ['an unknown field', [{ ...base, what: 1 }], 'strict decoding error: unknown field "providers[0].what"'],
    [
      'a wrong type',
      [{ ...base, args: 'x' }],
      'json: cannot unmarshal string into Go struct field CredentialProvider.providers.args of type []string',
    ],
    [
      'no audience',
      [{ ...base, tokenAttributes: { ...token, serviceAccountTokenAudience: '' } }],
      `${at}.tokenAttributes.serviceAccountTokenAudience: Required value`,
    ],
    [
      'an old version with a token',
      [{ ...base, apiVersion: `${API}beta1`, tokenAttributes: token }],
      `${at}.tokenAttributes: Forbidden: tokenAttributes is only supported for ${API} API version`,
    ],
    [
      'no kind of cache',
      [{ ...base, tokenAttributes: { ...token, cacheType: '' } }],
      'Supported values are: ServiceAccount, Token',
    ],
    [
      'a key that is both',
      [
        {
          ...base,
          tokenAttributes: {
            ...token,
            requiredServiceAccountAnnotationKeys: ['k'],
            optionalServiceAccountAnnotationKeys: ['k'],
          },
        },
      ],
      `${at}.tokenAttributes: Invalid value: ["k"]: annotation keys cannot be both required and optional`,
    ],
    [
      'keys without an account',
      [
        {
          ...base,
          tokenAttributes: { ...token, requireServiceAccount: false, requiredServiceAccountAnnotationKeys: ['k'] },
        },
      ],
      'requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set',
    ],
  ])('refuses %s', async (_, providers, error) => {
    const { folder, binDir, ports } = await credentialsIn();
    plugin(binDir, 'p', 'true');
    const config = writeProviders(folder, providers);
    await expect(perform(ports['images.registerProviders'], { config, binDir, tokens: true })).rejects.toThrow(error);
  });

  it('names a plugin that cannot be run', async () => {
    const { folder, binDir, ports } = await credentialsIn();
    const config = writeProviders(folder, [base]);
    const register = () => perform(ports['images.registerProviders'], { config, binDir, tokens: true });
    await expect(register()).rejects.toThrow('plugin binary executable  did not exist');
    writeFileSync(join(binDir, 'p'), '', { mode: 0o644 });
    await expect(register()).rejects.toThrow('error inspecting binary executable');
    await expect(perform(ports['images.registerProviders'], { config, binDir: '/nope', tokens: true })).rejects.toThrow(
      'plugin binary directory /nope did not exist',
    );
  });

  it('reads the files of a folder in the order of their names', async () => {
    const { folder, binDir, ports, lookup } = await credentialsIn();
    const configs = join(folder, 'conf.d');
    mkdirSync(configs);
    await expect(perform(ports['images.registerProviders'], { config: configs, binDir, tokens: true })).rejects.toThrow(
      `no configuration files found in directory "${configs}"`,
    );
    for (const name of ['b', 'a']) {
      plugin(binDir, name, `echo '${response(logins(name))}'`);
      const text = `apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- ${JSON.stringify({ ...base, name })}\n`;
      writeFileSync(join(configs, `${name}.yaml`), text);
    }
    writeFileSync(join(configs, 'readme.txt'), '{');
    await perform(ports['images.registerProviders'], { config: configs, binDir, tokens: true });
    expect(await lookup('a.io/x')).toEqual(['a:p', 'b:p']);
  });
});
