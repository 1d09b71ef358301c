/**
 * A registry for a test on loopback: Debian's docker-registry, with or without a login, and images that no other
 * machine has.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from './daemon.ts';
import { buildTestImages } from './image.ts';
import { freePort } from './ports.ts';

const run = promisify(execFile);

const PROGRAM = '/usr/bin/docker-registry';
export const LOGIN = { username: 'puller', password: 'canary-7f2c-registry-password' };
/** {@link LOGIN} hashed by bcrypt, the only form that the registry accepts. */
const HTPASSWD = 'puller:$2y$04$uHvN..2ZeKGkrMIDD6SvvOD936gs/5Nxi7tWXjl.NrioChNNROnLS';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';

export function registryAvailable(): string | null {
  try {
    accessSync(PROGRAM, constants.X_OK);
    return null;
  } catch {
    return `${PROGRAM} is not installed (Debian: docker-registry)`;
  }
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

export class Registry {
  readonly #directory = mkdtempSync(join(tmpdir(), 'statelet-registry-'));
  readonly #isLocked: boolean;
  #port = 0;
  #process: ChildProcess | undefined;
  #log = '';

  /** `locked`: only {@link LOGIN} may pull. */
  constructor({ locked }: { locked: boolean }) {
    this.#isLocked = locked;
  }

  /** The registry's address in names of images. */
  get host(): string {
    return `localhost:${this.#port}`;
  }

  async start(): Promise<this> {
    this.#port = await freePort();
    writeFileSync(join(this.#directory, 'htpasswd'), `${HTPASSWD}\n`);
    const auth = this.#isLocked ? `auth: { htpasswd: { realm: test, path: ${this.#directory}/htpasswd } }` : '';
    const config = join(this.#directory, 'config.yml');
    writeFileSync(
      config,
      `version: 0.1
log: { accesslog: { disabled: false } }
storage: { filesystem: { rootdirectory: ${this.#directory}/data } }
http: { addr: 127.0.0.1:${this.#port} }
${auth}
`,
    );
    this.#process = spawn(PROGRAM, ['serve', config], { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      stream?.on('data', (chunk) => (this.#log += String(chunk)));
    }
    await eventually('the registry answers', () => this.#ask('GET', '/v2/'));
    return this;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process?.once('exit', resolve));
    this.#process?.kill('SIGTERM');
    await ended;
    rmSync(this.#directory, { recursive: true });
  }

  /** How often the manifest of an image was requested and sent. */
  pullsOf(repository: string): number {
    const line = new RegExp(`"GET /v2/${repository}/manifests/[^"]*" 200 `, 'g');
    return (this.#log.match(line) ?? []).length;
  }

  /** Pushes the test's busybox under a new name and with a new id. Returns the name for a pod. */
  async push(repository: string, tag = '1'): Promise<string> {
    const layout = join(this.#directory, 'layout');
    mkdirSync(layout, { recursive: true });
    await buildTestImages(join(layout, 'images.tar'));
    await run('tar', ['-C', layout, '-xf', join(layout, 'images.tar')]);
    const [first] = (json(join(layout, 'index.json')) as { manifests: Descriptor[] }).manifests;
    const manifest = json(blobOf(layout, first!)) as { config: Descriptor; layers: Descriptor[] };
    const config = { ...(json(blobOf(layout, manifest.config)) as object), author: repository };
    for (const layer of manifest.layers) await this.#upload(repository, readFileSync(blobOf(layout, layer)));
    const uploaded = await this.#upload(repository, Buffer.from(JSON.stringify(config)));
    const body = JSON.stringify({ ...manifest, config: { ...manifest.config, ...uploaded } });
    await this.#ask('PUT', `/v2/${repository}/manifests/${tag}`, body, MANIFEST);
    return `${this.host}/${repository}:${tag}`;
  }

  async #upload(repository: string, bytes: Buffer): Promise<Pick<Descriptor, 'digest' | 'size'>> {
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    const begun = await this.#ask('POST', `/v2/${repository}/blobs/uploads/`);
    const target = new URL(begun.headers.get('location') ?? '', `http://127.0.0.1:${this.#port}`);
    target.searchParams.set('digest', digest);
    await this.#ask('PUT', `${target.pathname}${target.search}`, bytes, 'application/octet-stream');
    return { digest, size: bytes.length };
  }

  async #ask(method: string, path: string, body?: string | Buffer, type?: string): Promise<Response> {
    const basic = Buffer.from(`${LOGIN.username}:${LOGIN.password}`).toString('base64');
    const response = await fetch(`http://127.0.0.1:${this.#port}${path}`, {
      method,
      headers: { authorization: `Basic ${basic}`, ...(type === undefined ? {} : { 'content-type': type }) },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
    });
    if (response.ok) return response;
    throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  }
}

const json = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));
const blobOf = (layout: string, { digest }: Descriptor): string =>
  join(layout, 'blobs/sha256', digest.slice('sha256:'.length));
