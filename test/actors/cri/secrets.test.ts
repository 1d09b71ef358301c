/** Handles are replaced on the way to the runtime, and values on the way back. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { RuntimeClient } from '../../../src/actors/cri/client.ts';
import {
  markHolder,
  quotableSecrets,
  redactingClient,
  withoutSecrets,
  withoutTexts,
  withSecrets,
} from '../../../src/actors/cri/secrets.ts';
import { sealedContent } from '../../../src/actors/secret-bytes.ts';
import { type SecretHandle, Vault } from '../../../src/kernel/journal/secrets.ts';
import { OperationError } from '../../../src/kernel/json.ts';

const vault = new Vault(Buffer.alloc(32, 1));
const password = vault.seal('p$&ss');
const other = vault.seal('other');
const inBase64 = (text: string): string => Buffer.from(text).toString('base64');
const config = {
  command: ['sh', password.$secret],
  args: [`--password=${password.$secret}`, '$(A)'],
  envs: [{ key: 'A', value: `x${password.$secret}${password.$secret}y` }],
  mounts: [{ host_path: password.$secret }],
};

it('opens variables, command and arguments, and nothing else', () => {
  expect(withSecrets(config, [password], vault)).toEqual({
    command: ['sh', 'p$&ss'],
    args: ['--password=p$&ss', '$(A)'],
    envs: [{ key: 'A', value: inBase64('xp$&ssp$&ssy') }],
    mounts: [{ host_path: password.$secret }],
  });
});

it('opens only what it was told to', () => {
  const unopened = { ...config, envs: [{ key: 'A', value: inBase64(config.envs[0]!.value) }] };
  expect(withSecrets(config, [other], vault)).toEqual(unopened);
  expect(withSecrets(config, [], vault)).toEqual(unopened);
});

it('gives variables the bytes of a value that is no text, beside a text which is the same in base64', () => {
  const bytes = Buffer.from([0xff, 0x00, 0x41]);
  const binary = sealedContent(bytes, vault) as { variable: SecretHandle };
  const text = sealedContent(Buffer.from(bytes.toString('base64')), vault) as { text: SecretHandle };
  const envs = [
    { key: 'B', value: `<${binary.variable.$secret}é${binary.variable.$secret}` },
    { key: 'T', value: text.text.$secret },
  ];
  const opened = withSecrets({ envs }, [binary.variable, text.text], vault).envs ?? [];
  expect(opened.map(({ value = '' }) => Buffer.from(value, 'base64').toString('latin1'))).toEqual([
    `<\xff\0A${Buffer.from('é').toString('latin1')}\xff\0A`,
    '/wBB',
  ]);
});

it('refuses a command with a value that is no text, as Go does', () => {
  const { variable } = sealedContent(Buffer.from([0xff]), vault) as { variable: SecretHandle };
  expect(() => withSecrets({ command: ['sh', variable.$secret] }, [variable], vault)).toThrow(
    'rpc error: code = Internal desc = grpc: error while marshaling: string field contains invalid UTF-8',
  );
});

it('takes a value that is no text out of an error in the form that a text has for it', () => {
  const bytes = Buffer.from([0xff, 0x70, 0x61, 0x73, 0x73]);
  const { variable } = sealedContent(bytes, vault) as { variable: SecretHandle };
  const quoted = new OperationError(`no such file: ${bytes.toString('utf8')}`);
  const error = withoutSecrets(quoted, quotableSecrets([variable], vault), vault) as Error;
  expect(error.message).not.toContain('pass');
});

it('opens once, so that a value which looks like a handle stays what it is', () => {
  const nested = vault.seal(password.$secret);
  expect(withSecrets({ args: [nested.$secret] }, [nested, password], vault).args).toEqual([password.$secret]);
});

it('opens what a pre-stop hook sends as JSON', () => {
  const quoted = vault.seal('a"<b');
  const key = 'io.kubernetes.container.preStopHandler';
  const { annotations } = withSecrets({ annotations: { [key]: `{"v":"${quoted.$secret}"}` } }, [quoted], vault);
  expect(annotations?.[key]).toBe(String.raw`{"v":"a\"\u003cb"}`);
});

it('leaves it to the runtime how long a word may be that people wrote', () => {
  const long = vault.seal('x'.repeat(1_000_000));
  expect(withSecrets({ args: [long.$secret] }, [long], vault).args![0]).toHaveLength(1_000_000);
});

it('refuses words that grow beyond what a program can be given, each and all', () => {
  const long = vault.seal('x'.repeat(100_000));
  const create = (args: readonly string[]) => () => withSecrets({ args: [...args] }, [long], vault);
  expect(create([long.$secret.repeat(3)])).toThrow(
    'variables make a word longer by 200000 characters, and 131072 are left',
  );
  expect(create(Array.from({ length: 63 }, () => long.$secret))).not.toThrow();
  expect(create(Array.from({ length: 64 }, () => long.$secret))).toThrow(/longer by 100000 characters, and 91456 are/);
});

it('says that a value has to be fetched again', () => {
  const unknown = { $secret: `§${'u'.repeat(22)}`, len: 1 };
  expect(() => withSecrets(config, [unknown], vault)).toThrow(expect.objectContaining({ code: 'SECRET_NOT_HELD' }));
});

it('tells an error without the value, and as it was otherwise', () => {
  const details = { name: 'ServiceError', code: 'UNKNOWN', retriable: true };
  const error = withoutSecrets(new OperationError('exec: "p$&ss": not found', details), [password, other], vault);
  expect(error).toMatchObject({ message: `exec: "${password.$secret}": not found`, ...details });
});

it('leaves alone what is no error of an operation', () => {
  const error = new TypeError('p$&ss');
  expect(withoutSecrets(error, [password], vault)).toBe(error);
});

it.each([
  ['first line\nand second', 'exec: "first line\\nand second": not found'],
  ['with "quotes" and \\', 'exec: "with \\"quotes\\" and \\\\": not found'],
  ['less < than', 'json {"a":"less \\u003c than"}'],
  ['bell\u0007 rings', 'exec: "bell\\a rings"'],
  ['as it\nis', 'as it\nis'],
])('takes the value %j out of a text that quotes it', (value, message) => {
  const secret = vault.seal(value);
  const error = withoutSecrets(new OperationError(message), [secret], vault) as Error;
  expect(error.message).toContain(secret.$secret);
  expect(error.message).not.toMatch(/second|quotes|than|rings|is$/);
  expect((withoutTexts(new OperationError(message), [value]) as Error).message).toContain('<withheld>');
});

it('tells an event of the runtime without the values, and without what may quote those of another agent', async () => {
  const text = { message: 'exec: "p$&ss"' };
  const statuses = [
    { id: 'mine', ...text },
    { id: 'other', ...text },
    { id: 'fine', message: '' },
  ];
  const event = { container_id: 'mine', containers_statuses: statuses };
  const client = {
    stream: (_name: string, _request: object, onMessage: (message: unknown) => void) => onMessage(event),
  } as unknown as RuntimeClient;
  const received: unknown[] = [];
  const secretsOf = (id: string) => (id === 'mine' ? [password] : undefined);
  const { signal } = new AbortController();
  await redactingClient(client, secretsOf, vault).stream(
    'GetContainerEvents',
    {},
    (message) => received.push(message),
    signal,
  );
  const mine = { id: 'mine', message: `exec: "${password.$secret}"` };
  expect(received).toEqual([{ ...event, containers_statuses: [mine, { id: 'fine', message: '' }] }]);
});

it('tells that a value was forgotten, and not what may quote it', async () => {
  const small = new Vault(Buffer.alloc(32, 1), { limits: { looseBytes: 300 } });
  const forgotten = small.seal('p$&ss');
  small.seal('another');
  const status = { id: 'c1', message: 'exec: "p$&ss"', log_path: '' };
  const client = { call: () => Promise.resolve({ status, info: {} }) } as unknown as RuntimeClient;
  const told = await redactingClient(client, () => [forgotten], small).call(
    'ContainerStatus',
    { container_id: 'c1' },
    { timeoutMs: 1 },
  );
  expect(told.status?.message).toMatch(/may quote a Secret that this agent does not have/);
});

describe('the status of a container', () => {
  const logs = mkdtempSync(join(tmpdir(), 'statelet-secrets-'));
  afterAll(() => rmSync(logs, { recursive: true }));
  const text = 'exec: "p$&ss"';

  it.each([
    ['that it made', 'marked', [password], `exec: "${password.$secret}"`],
    ['without secrets', 'plain', undefined, text],
    ['that another agent made', 'marked', undefined, expect.stringMatching(/may quote a Secret/)],
    ['that another agent made and that writes no log', '', undefined, expect.stringMatching(/may quote a Secret/)],
  ])('%s', async (_, name, handles, message) => {
    await markHolder({ log_directory: logs }, { log_path: 'marked/0.log' });
    const status = { id: 'c1', message: text, log_path: name && join(logs, name, '1.log') };
    const client = { call: () => Promise.resolve({ status, info: {} }) } as unknown as RuntimeClient;
    const options = { timeoutMs: 1 };
    const received = await redactingClient(client, () => handles, vault).call(
      'ContainerStatus',
      { container_id: 'c1' },
      options,
    );
    expect(received.status).toEqual({ ...status, message });
  });
});
