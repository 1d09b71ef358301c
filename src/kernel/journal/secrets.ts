/**
 * Secrets: values that machines may compare and pass on, but must never see.
 *
 * A port seals a value where it enters; events, context and journal contain only a handle, `{"$secret":"§<22
 * characters>","len":n}`. A port opens the handle where the value leaves. The handle is an HMAC with the node's key:
 * equal values have equal handles, so machines notice a rotation; a replay needs neither key nor values; and without
 * the key a handle cannot be guessed.
 *
 * Invariants: values live in memory, or on disk under the node's key (`wrap`); the key file is created once,
 * atomically, readable by its owner only.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { chmodSync, linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { OperationError } from '../json.ts';
import { codeOf, messageOf } from '../thrown.ts';
import { PRIVATE } from './disk.ts';
import { JournalError } from './errors.ts';
import { type Document, HeldValues, type HoldingLimits } from './held-values.ts';

const KEY_BYTES = 32;
/** 132 bits: collisions between the secrets of a node are practically impossible. */
const HANDLE_LENGTH = 22;
/** AES-256-GCM with a key of its own; nonce and tag precede the ciphertext. */
const CIPHER = 'aes-256-gcm';
const WRAPPING = 'statelet: secrets on disk';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HANDLE = /^§[A-Za-z0-9_-]{22}$/;

export type SecretHandle = {
  readonly $secret: string;
  /** Length of the value in bytes. */
  readonly len: number;
};

export function isSecretHandle(value: unknown): value is SecretHandle {
  if (typeof value !== 'object' || value === null) return false;
  const { $secret, len } = value as Partial<SecretHandle>;
  return typeof $secret === 'string' && HANDLE.test($secret) && typeof len === 'number';
}

export interface VaultOptions {
  readonly limits?: Partial<HoldingLimits>;
  readonly isPlain?: boolean;
}

/** The secrets held by this process. */
export class Vault {
  private readonly key: KeyObject;
  private readonly values: HeldValues;
  /** Values written into pods stay plain; see `--journal-plain`. */
  readonly isPlain: boolean;

  constructor(key: Buffer, { limits = {}, isPlain = false }: VaultOptions = {}) {
    this.key = createSecretKey(key);
    this.values = new HeldValues(limits);
    this.isPlain = isPlain;
  }

  seal(value: string): SecretHandle {
    const mac = createHmac('sha256', this.key).update(value).digest('base64url');
    const name = `§${mac.slice(0, HANDLE_LENGTH)}`;
    this.values.add(name, value);
    return { $secret: name, len: Buffer.byteLength(value) };
  }

  /** What is sealed meanwhile belongs to the document, in place of what belonged to it before. */
  hold<Sealed>(document: Document, sealing: () => Sealed): Sealed {
    return this.values.hold(document, sealing);
  }

  /** The document is gone, with those whose ids continue its own after a slash; see {@link HeldValues}. */
  release(id: string): void {
    this.values.release(id);
  }

  /** The documents whose ids are `prefix` and one of `names`, and their parts, are all that are left below `prefix`. */
  releaseOthers(prefix: string, names: ReadonlySet<string>): void {
    for (const id of this.values.ids(prefix)) {
      const [name = ''] = id.slice(prefix.length).split('/');
      if (!names.has(name)) this.values.release(id);
    }
  }

  open(handle: SecretHandle): string {
    const value = this.values.get(handle.$secret);
    if (value !== undefined) return value;
    const sentence = `the secret ${handle.$secret} is not in memory: it must be fetched again from where it came`;
    throw new OperationError(sentence, { name: 'SecretNotHeld', code: 'SECRET_NOT_HELD', retriable: true });
  }

  /** The encrypted value of a handle for storage on disk. Without the node's key only its length is visible. */
  wrap(handle: SecretHandle): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.wrappingKey(), nonce);
    const text = Buffer.concat([cipher.update(this.open(handle), 'utf8'), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64');
  }

  /** The handle of a value that this node encrypted; `null` if the text is damaged or of another node. */
  unwrap(wrapped: string): SecretHandle | null {
    const bytes = Buffer.from(wrapped, 'base64');
    try {
      const decipher = createDecipheriv(CIPHER, this.wrappingKey(), bytes.subarray(0, NONCE_BYTES));
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      const text = bytes.subarray(NONCE_BYTES + TAG_BYTES);
      return this.seal(Buffer.concat([decipher.update(text), decipher.final()]).toString('utf8'));
    } catch {
      return null;
    }
  }

  private wrappingKey(): Buffer {
    return Buffer.from(hkdfSync('sha256', this.key, '', WRAPPING, KEY_BYTES));
  }

  /** A copy of a port's input with every handle opened. */
  openAll(input: unknown): unknown {
    if (typeof input !== 'object' || input === null) return input;
    if (isSecretHandle(input)) return this.open(input);
    if (Array.isArray(input)) return input.map((part) => this.openAll(part));
    return Object.fromEntries(Object.entries(input).map(([key, part]) => [key, this.openAll(part)]));
  }
}

/** Opens the vault of a node. The key should lie beside the node's other credentials, not beside the journal. */
export function openVault(keyFile: string, options: VaultOptions = {}): Vault {
  const key = readKey(keyFile) ?? makeKey(keyFile);
  if (key.length === KEY_BYTES) return new Vault(key, options);
  const sentence = `the node key has ${key.length} bytes instead of ${KEY_BYTES}; remove it and a new one is made`;
  throw new JournalError('unusable', { file: keyFile }, sentence);
}

function readKey(file: string): Buffer | undefined {
  try {
    if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, PRIVATE);
    return readFileSync(file);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new JournalError('unusable', { file }, `the node key cannot be read: ${messageOf(error)}`, error);
  }
}

/** The key file is complete when it appears; of two processes that start at once, one key wins. */
function makeKey(file: string): Buffer {
  const unfinished = `${file}.${process.pid}.tmp`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
    writeFileSync(unfinished, randomBytes(KEY_BYTES), { mode: PRIVATE, flush: true });
    linkSync(unfinished, file);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') {
      throw new JournalError('unusable', { file }, `the node key cannot be made: ${messageOf(error)}`, error);
    }
  } finally {
    rmSync(unfinished, { force: true });
  }
  return readFileSync(file);
}
