import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSecretHandle, openVault, Vault } from '../../../src/kernel/journal/secrets.ts';
import { record, recordsIn, temporaryDirectory } from './support.ts';

const CANARY = 'canary-7f3a9c-do-not-write-me';

describe('the vault', () => {
  it('opens what it sealed, and the same value always has the same handle', () => {
    const key = Buffer.alloc(32, 1);
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const vault = new Vault(key);
        const handle = vault.seal(value);
        expect(isSecretHandle(handle)).toBe(true);
        expect(handle.len).toBe(Buffer.byteLength(value));
        expect(vault.open(handle)).toBe(value);
        expect(new Vault(key).seal(value)).toEqual(handle);
        expect(new Vault(Buffer.alloc(32, 2)).seal(value)).not.toEqual(handle);
      }),
    );
  });

  it('opens every handle of an input, and nothing else of it', () => {
    const vault = new Vault(Buffer.alloc(32));
    const token = vault.seal('s3cret');
    const input = JSON.parse(JSON.stringify({ env: [{ name: 'A', value: token }], __proto: 1, no: { $secret: 'x' } }));
    expect(vault.openAll(input)).toEqual({ env: [{ name: 'A', value: 's3cret' }], __proto: 1, no: { $secret: 'x' } });
    expect(input.env[0].value).toEqual(token);
  });

  it('wraps what a node may keep on disk, and unwraps it with the same key only', () => {
    const key = Buffer.alloc(32, 1);
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(), (value, at) => {
        const vault = new Vault(key);
        const handle = vault.seal(value);
        const wrapped = vault.wrap(handle);
        const restarted = new Vault(key);
        expect(restarted.unwrap(wrapped)).toEqual(handle);
        expect(restarted.open(handle)).toBe(value);
        expect(vault.wrap(handle)).not.toBe(wrapped);
        expect(new Vault(Buffer.alloc(32, 2)).unwrap(wrapped)).toBeNull();
        const bytes = Buffer.from(wrapped, 'base64');
        bytes[at % bytes.length]! ^= 1;
        expect(vault.unwrap(bytes.toString('base64'))).toBeNull();
      }),
    );
    const vault = new Vault(key);
    expect(vault.wrap(vault.seal(CANARY))).not.toContain(CANARY);
    expect(Buffer.from(vault.wrap(vault.seal(CANARY)), 'base64').toString('latin1')).not.toContain('canary');
    for (const text of ['', 'AAAA', '%%%']) expect(vault.unwrap(text)).toBeNull();
  });

  it('a secret it does not hold can be fetched again; the oldest are forgotten first', () => {
    const vault = new Vault(Buffer.alloc(32), { limits: { looseBytes: 500 } });
    const [a, b, c] = ['a', 'b', 'c'].map((value, i) => (i === 2 && vault.open(vault.seal('a')), vault.seal(value)));
    expect(vault.open(a!)).toBe('a');
    expect(vault.open(c!)).toBe('c');
    expect(() => vault.open(b!)).toThrow(expect.objectContaining({ code: 'SECRET_NOT_HELD', retriable: true }));
  });
});

describe('the node key', () => {
  it('is made once, private, and used again', () => {
    const file = join(temporaryDirectory(), 'keys', 'node.key');
    const handle = openVault(file).seal('x');
    expect(statSync(file)).toMatchObject({ size: 32, mode: 0o100600 });
    expect(readdirSync(join(file, '..'))).toEqual(['node.key']);
    chmodSync(file, 0o644);
    expect(openVault(file).seal('x')).toEqual(handle);
    expect(statSync(file).mode).toBe(0o100600);
  });

  it('that is not whole is refused, with what to do', () => {
    const file = join(temporaryDirectory(), 'node.key');
    writeFileSync(file, 'short');
    expect(() => openVault(file)).toThrow(/the node key has 5 bytes instead of 32; remove it and a new one is made/);
  });
});

it('a canary that travels as a handle is in no file of the journal', async () => {
  const directory = temporaryDirectory();
  const vault = openVault(join(directory, 'node.key'));
  const kernel = record(directory).boot();
  kernel.turn({ type: 'secret.changed', data: { password: vault.seal(CANARY) } });
  kernel.turn({ type: 'secret.changed', data: Array.from({ length: 300 }, (_, i) => vault.seal(`${CANARY}-${i}`)) });
  kernel.checkpoint().turn();
  await kernel.journal.close();

  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) =>
    statSync(join(directory, name)).isFile(),
  );
  expect(files.length).toBeGreaterThan(5);
  for (const name of files) expect(readFileSync(join(directory, name)).includes(CANARY), name).toBe(false);
  expect(JSON.stringify(recordsIn(directory))).not.toContain(CANARY);
  const [, event] = recordsIn(directory).filter((record) => record.k === 'in');
  expect(vault.openAll(event!.event.data)).toContain(`${CANARY}-299`);
});
