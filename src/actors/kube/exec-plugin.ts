/**
 * The credentials of a program: an exec plugin of a kubeconfig.
 *
 * The program learns in KUBERNETES_EXEC_INFO what is asked, and answers with an ExecCredential. Invariants: it runs
 * once at a time, and again when its credentials have expired or the server refused them; an answer of more than {@link
 * ANSWER_MAX_BYTES}, or after {@link DEADLINE_MS}, is an error; it never reads the agent's input.
 * Upstream: k8s.io/client-go/plugin/pkg/client/auth/exec.
 */
import { execFile } from 'node:child_process';
import { isObject, type Json } from '../../kernel/json.ts';
import { interpretTypeMeta } from '../../machines/configuration/fields/decode.ts';
import type { ExecCommand } from './kubeconfig.ts';
import { checkPair } from './pem.ts';

/** Upstream waits forever; a program that hangs would keep the node from the API server. */
const DEADLINE_MS = 60_000;
/** A token and a certificate have a few KiB. */
const ANSWER_MAX_BYTES = 1_048_576;
/** Characters of a failed program's stderr in its error. */
const COMPLAINT_MAX_CHARS = 1_024;

export interface PluginCredentials {
  /** Empty: none. */
  readonly token: string;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  /** Milliseconds since the epoch; `Infinity`: never. */
  readonly expiresAtMs: number;
}

interface PluginOptions {
  readonly now?: () => number;
  readonly deadlineMs?: number;
}

export class ExecPlugin {
  private readonly exec: ExecCommand;
  private readonly now: () => number;
  private readonly deadlineMs: number;
  private known: PluginCredentials | undefined;
  private pending: Promise<PluginCredentials> | undefined;

  constructor(exec: ExecCommand, { now = Date.now, deadlineMs = DEADLINE_MS }: PluginOptions = {}) {
    this.exec = exec;
    this.now = now;
    this.deadlineMs = deadlineMs;
  }

  /** The server refused the credentials. */
  expire(): void {
    this.known = undefined;
  }

  /** Rejects with upstream's text. */
  async current(): Promise<PluginCredentials> {
    if (this.known !== undefined && this.now() <= this.known.expiresAtMs) return this.known;
    this.pending ??= run(this.exec, this.deadlineMs).finally(() => {
      this.pending = undefined;
    });
    try {
      this.known = await this.pending;
      return this.known;
    } catch (error) {
      throw new Error(`getting credentials: ${(error as Error).message}`, { cause: error });
    }
  }
}

async function run(exec: ExecCommand, deadlineMs: number): Promise<PluginCredentials> {
  const { command, args, env, apiVersion, interactiveMode, cluster } = exec;
  if (interactiveMode === 'Always') {
    throw new Error('exec plugin cannot support interactive mode: standard input is not a terminal');
  }
  const spec = { ...(cluster === undefined ? {} : { cluster }), interactive: false };
  const info = JSON.stringify({ kind: 'ExecCredential', apiVersion, spec });
  const own = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const variables = { ...process.env, ...own, KUBERNETES_EXEC_INFO: info };
  const answer = await outputOf(command, args, variables, deadlineMs);
  return credentialsIn(answer, apiVersion);
}

function outputOf(command: string, args: readonly string[], env: NodeJS.ProcessEnv, timeout: number): Promise<string> {
  const options = { env, timeout, maxBuffer: ANSWER_MAX_BYTES, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve, reject) => {
    const child = execFile(command, [...args], options, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      const { code, killed } = error;
      const complaint = stderr.trim().slice(0, COMPLAINT_MAX_CHARS);
      reject(
        new Error(`exec: ${failureOf(command, code, killed === true)}${complaint === '' ? '' : `: ${complaint}`}`),
      );
    });
    child.stdin?.on('error', () => undefined);
    child.stdin?.end();
  });
}

function failureOf(command: string, code: unknown, killed: boolean): string {
  if (code === 'ENOENT') return `executable ${command} not found`;
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `executable ${command} answered with too many bytes`;
  if (typeof code === 'number') return `executable ${command} failed with exit code ${code}`;
  return killed ? `executable ${command} did not end in time` : `fork/exec ${command}: ${String(code)}`;
}

function credentialsIn(answer: string, apiVersion: string): PluginCredentials {
  const typed = interpretTypeMeta(jsonIn(answer));
  if (typed.error !== undefined) throw new Error(`decoding stdout: ${typed.error}`);
  const { meta, body } = typed;
  if (meta.kind !== 'ExecCredential')
    throw new Error(`decoding stdout: it is no ExecCredential, but ${meta.kind || 'nothing'}`);
  if (meta.apiVersion !== apiVersion) {
    throw new Error(
      `exec plugin is configured to use API version ${apiVersion}, plugin returned version ${meta.apiVersion}`,
    );
  }
  const { status } = body;
  if (!isObject(status)) throw new Error("exec plugin didn't return a status field");
  const text = (name: string): string => (typeof status[name] === 'string' ? status[name] : '');
  const [token, cert, key] = [text('token'), text('clientCertificateData'), text('clientKeyData')];
  if (token === '' && cert === '' && key === '') {
    throw new Error("exec plugin didn't return a token or cert/key pair");
  }
  if ((cert === '') !== (key === '')) throw new Error('exec plugin returned only certificate or key, not both');
  if (cert !== '') checkPluginPair(cert, key);
  const expiration = text('expirationTimestamp');
  const expiresAtMs = expiration === '' ? Number.POSITIVE_INFINITY : Date.parse(expiration);
  if (Number.isNaN(expiresAtMs)) throw new Error('decoding stdout: expirationTimestamp is no time');
  return { token, cert: cert || undefined, key: key || undefined, expiresAtMs };
}

/** No error quotes the answer, which has secrets. */
function jsonIn(answer: string): Json {
  try {
    return JSON.parse(answer) as Json;
  } catch {
    throw new Error('decoding stdout: it is no JSON');
  }
}

function checkPluginPair(cert: string, key: string): void {
  try {
    checkPair(Buffer.from(cert), Buffer.from(key));
  } catch (error) {
    throw new Error(`failed parsing client key/certificate: ${(error as Error).message}`, { cause: error });
  }
}
