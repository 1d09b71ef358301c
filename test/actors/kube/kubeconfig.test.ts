/** Kubeconfigs that the kubelet accepts and refuses, with its texts: each case was run on kubelet 1.36.2. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { checkClient } from '../../../src/actors/kube/client-checks.ts';
import { loadKubeconfig } from '../../../src/actors/kube/kubeconfig.ts';
import { Authority } from '../../fakes/api-server/pki.ts';

const SERVER = 'server: https://127.0.0.1:1';
const EXEC = 'apiVersion: client.authentication.k8s.io/v1, command: x';
const OPENING = 'error loading config file "<dir>/config": ';
const INVALID = 'invalid configuration: ';
const BUILDING = 'failed to initialize kubelet client: ';
const ROOTS = 'unable to load root certificates: ';
const FIELD = 'into Go struct field';

interface Parts {
  readonly cluster?: string;
  readonly user?: string;
  readonly context?: string;
  /** Replaces the whole document. */
  readonly text?: string;
}

const documentOf = ({ cluster = SERVER, user = 'token: t', context = 'cluster: c, user: u' }: Parts) => `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {${cluster}}}]
users: [{name: u, user: {${user}}}]
contexts: [{name: x, context: {${context}}}]
current-context: x
`;

let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'kubeconfig-'));
  const authority = await Authority.create('cluster');
  for (const name of ['a', 'b']) {
    const { cert, key } = await authority.issue({ commonName: name, usages: ['client auth'] });
    writeFileSync(join(directory, `${name}.crt`), cert);
    writeFileSync(join(directory, `${name}.key`), key);
  }
  writeFileSync(join(directory, 'garbage'), 'garbage\n');
  writeFileSync(join(directory, 'empty'), '');
  mkdirSync(join(directory, 'bin'));
});
afterAll(() => rmSync(directory, { recursive: true }));

const GARBAGE = 'Z2FyYmFnZQ==';

/** Why a node does not start with the kubeconfig; empty if it does. `rotated`: with a certificate manager. */
function refusalOf(parts: Parts, rotated: string | null = null): string {
  const path = join(directory, 'config');
  writeFileSync(path, parts.text ?? documentOf(parts));
  try {
    checkClient(loadKubeconfig(path), rotated);
    return '';
  } catch (error) {
    return (error as Error).message.replaceAll(directory, '<dir>');
  }
}

it.each<[string, Parts]>([
  ['a token', {}],
  ['a user that does not exist', { context: 'cluster: c, user: z' }],
  ['no user', { context: 'cluster: c' }],
  ['a server without a scheme', { cluster: 'server: "127.0.0.1:1"' }],
  ['a token file that is not there, and a token', { user: 'tokenFile: nope, token: t' }],
  ['no TLS, so that its files do not matter', { cluster: 'server: http://x', user: 'tokenFile: nope' }],
  ['an empty file of authorities', { cluster: `${SERVER}, certificate-authority: empty` }],
  ['files of a pair that do not match yet', { user: 'client-certificate: a.crt, client-key: b.key' }],
  ['an older plugin', { user: 'exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x}' }],
])('%s is accepted', (_, parts) => expect(refusalOf(parts)).toBe(''));

it.each<[string, Parts, string]>([
  [
    'a proxy of another kind',
    { cluster: `${SERVER}, proxy-url: "foo://x"` },
    `${INVALID}invalid 'proxy-url' "foo://x" for cluster "c": unsupported scheme "foo", must be http, https, or socks5`,
  ],
  [
    'a proxy that is no URL',
    { cluster: `${SERVER}, proxy-url: "::::"` },
    `${INVALID}invalid 'proxy-url' "::::" for cluster "c": could not parse: ::::`,
  ],
  [
    'authorities twice',
    { cluster: `${SERVER}, certificate-authority: a.crt, certificate-authority-data: ${GARBAGE}` },
    `${INVALID}certificate-authority-data and certificate-authority are both specified for c. certificate-authority-data will override.`,
  ],
  [
    'authorities that are not there',
    { cluster: `${SERVER}, certificate-authority: nope` },
    `${INVALID}unable to read certificate-authority <dir>/nope for c due to open <dir>/nope: no such file or directory`,
  ],
  [
    'authorities that are none',
    { cluster: `${SERVER}, certificate-authority: garbage` },
    `${BUILDING}${ROOTS}unable to parse bytes as PEM block`,
  ],
  [
    'a key instead of authorities',
    { cluster: `${SERVER}, certificate-authority: a.key` },
    `${BUILDING}${ROOTS}no valid certificate authority data seen`,
  ],
  [
    'data that is not base64',
    { cluster: `${SERVER}, certificate-authority-data: "ab%"` },
    `${OPENING}illegal base64 data at input byte 2`,
  ],
  ['data that is cut', { user: 'client-key-data: "YWJjZA"' }, `${OPENING}illegal base64 data at input byte 4`],
  [
    'authorities that are not checked',
    { cluster: `${SERVER}, certificate-authority: a.crt, insecure-skip-tls-verify: true` },
    `${BUILDING}specifying a root certificates file with the insecure flag is not allowed`,
  ],
  [
    'a text instead of a truth value',
    { cluster: `${SERVER}, insecure-skip-tls-verify: "true"` },
    `${OPENING}json: cannot unmarshal string ${FIELD} Cluster.clusters.cluster.insecure-skip-tls-verify of type bool`,
  ],
  [
    'a number instead of a token',
    { user: 'token: 5' },
    `${OPENING}json: cannot unmarshal number ${FIELD} AuthInfo.users.user.token of type string`,
  ],
  [
    'a text instead of a plugin',
    { user: 'exec: foo' },
    `${OPENING}json: cannot unmarshal string ${FIELD} AuthInfo.users.user.exec of type v1.ExecConfig`,
  ],
  [
    'a certificate twice',
    { user: `client-certificate: a.crt, client-certificate-data: ${GARBAGE}, client-key: a.key` },
    `${INVALID}client-cert-data and client-cert are both specified for u. client-cert-data will override.`,
  ],
  [
    'a key twice',
    { user: `client-certificate: a.crt, client-key: a.key, client-key-data: ${GARBAGE}` },
    `${INVALID}client-key-data and client-key are both specified for u; client-key-data will override`,
  ],
  [
    'no key',
    { user: 'client-certificate: a.crt' },
    `${INVALID}client-key-data or client-key must be specified for u to use the clientCert authentication method.`,
  ],
  [
    'a certificate that is none',
    { user: `client-certificate-data: ${GARBAGE}, client-key: a.key` },
    `${BUILDING}tls: failed to find any PEM data in certificate input`,
  ],
  [
    'two ways to authenticate',
    { user: 'token: t, username: a, password: b' },
    `${INVALID}more than one authentication method found for u; found [token basicAuth], only one is allowed`,
  ],
  ['no file of a token', { user: 'tokenFile: nope' }, 'open <dir>/nope: no such file or directory'],
  ['an empty token', { user: 'tokenFile: empty' }, `${BUILDING}read empty token from file "<dir>/empty"`],
  [
    'a plugin without a mode',
    { user: `exec: {${EXEC}}` },
    `${INVALID}interactiveMode must be specified for u to use exec authentication plugin`,
  ],
  [
    'a plugin with another mode',
    { user: `exec: {${EXEC}, interactiveMode: Foo}` },
    `${INVALID}invalid interactiveMode for u: "Foo"`,
  ],
  [
    'a plugin without a command',
    { user: 'exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}' },
    `${INVALID}command must be specified for u to use exec authentication plugin`,
  ],
  [
    'a plugin with a variable without a name',
    { user: `exec: {${EXEC}, interactiveMode: Never, env: [{value: x}]}` },
    `${INVALID}env variable name must be specified for u to use exec authentication plugin`,
  ],
  [
    'a plugin of another version',
    { user: 'exec: {apiVersion: foo/v1, command: x, interactiveMode: Never}' },
    `${BUILDING}exec plugin: invalid apiVersion "foo/v1"`,
  ],
  [
    'a plugin and a provider',
    { user: `exec: {${EXEC}, interactiveMode: Never}, auth-provider: {name: oidc}` },
    `${INVALID}authProvider cannot be provided in combination with an exec plugin for u`,
  ],
  [
    'a provider, of which the kubelet has none',
    { user: 'auth-provider: {name: oidc}' },
    `${BUILDING}no Auth Provider found for name "oidc"`,
  ],
  [
    'groups without a user',
    { user: 'token: t, as-groups: [g]' },
    `${INVALID}requesting uid, groups or user-extra for u without impersonating a user`,
  ],
  [
    'a cluster that does not exist',
    { context: 'cluster: z, user: u' },
    `${INVALID}no configuration has been provided, try setting KUBERNETES_MASTER environment variable`,
  ],
  ['a cluster without a server', { cluster: '' }, `${INVALID}no server found for cluster "c"`],
  [
    'a server that is no URL',
    { cluster: 'server: "https://a b"' },
    `${BUILDING}host must be a URL or a host:port pair: "https://a b"`,
  ],
  [
    'a server that is no host',
    { cluster: 'server: "foo bar"' },
    `${BUILDING}parse "http://foo bar": invalid character " " in host name`,
  ],
  [
    'a text',
    { text: 'foo\n' },
    `${OPENING}couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type ` +
      'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
  ],
])('%s is refused', (_, parts, refusal) => expect(refusalOf(parts)).toBe(refusal));

it('two entries of one name are refused, without their secrets', () => {
  const text = `${documentOf({})}users: [{name: u, user: {token: canary-1}}, {name: u, user: {token: canary-2}}]\n`;
  expect(refusalOf({ text })).toBe(
    `${OPENING}error converting *[]NamedAuthInfo into *map[string]*api.AuthInfo: duplicate name "u" in list`,
  );
});

it.each<[string, Parts, string]>([
  ['an empty token, which it does not use', { user: 'tokenFile: empty' }, ''],
  [
    'a pair that does not match',
    { user: 'client-certificate: a.crt, client-key: b.key' },
    'failed to initialize client certificate manager: tls: private key does not match public key',
  ],
  [
    'authorities that are none',
    { cluster: `${SERVER}, certificate-authority: garbage` },
    `unable to configure TLS for the rest client: ${ROOTS}unable to parse bytes as PEM block`,
  ],
])('a node that rotates its certificate and has %s', (_, parts, refusal) => {
  expect(refusalOf(parts, join(directory, 'none.pem'))).toBe(refusal);
});

it('finds the program of a plugin beside the kubeconfig, unless it is a name', () => {
  const commandOf = (command: string) => {
    const path = join(directory, 'config');
    writeFileSync(path, documentOf({ user: `exec: {${EXEC.replace('x', command)}, interactiveMode: Never}` }));
    return loadKubeconfig(path).user.exec?.command;
  };
  expect(['tool', './bin/tool', '/bin/tool'].map(commandOf)).toEqual([
    'tool',
    join(directory, 'bin/tool'),
    '/bin/tool',
  ]);
});
