/**
 * The operations `probe.*`: periodic probes, and HTTP hooks.
 *
 * Decides: nothing about containers; only the time of the next attempt, and reports through {@link tally}.
 * Invariants: attempts of one probe never overlap, and start a period apart or later; nothing is emitted after an
 * abort.
 */
import { randomBytes } from 'node:crypto';
import { Vault } from '../../kernel/journal/secrets.ts';
import { OperationError } from '../../kernel/json.ts';
import type { Port, Ports } from '../../kernel/operation.ts';
import type { criOperations } from '../../machines/model/operations/cri.ts';
import type { Header, ProbeHandler, ProbeWatch, probeOperations } from '../../machines/model/operations/probe.ts';
import { redacted, searchableSecrets, Values, withoutSecrets } from '../cri/secrets.ts';
import { pause } from '../pause.ts';
import { openedText } from '../pod-values.ts';
import {
  type Attempt,
  type AttemptOptions,
  brokenOff,
  type ExecSync,
  errored,
  failure,
  probeExec,
  probeTcp,
  success,
} from './attempt.ts';
import { newTally, periodMs, tally } from './counter.ts';
import { probeGrpc } from './grpc.ts';
import { httpGet } from './http-get.ts';

const PROBE_AGENT = 'kube-probe/1.36';
const HOOK_AGENT = 'kube-lifecycle/1.36';
/** How often an impossible attempt is repeated before it counts as errored. */
const ATTEMPTS_MAX = 3;
const STATUS_OK = 200;
const STATUS_REDIRECT = 300;
const STATUS_ERROR = 400;

const KEY_BYTES = 32;

type ProbePorts = Ports<typeof probeOperations>;

interface ProbeContext {
  readonly execSync: ExecSync;
  /** Holds the values of headers and variables. */
  readonly vault: Vault;
}

/** Called for every attempt: the kernel's request that it belongs to, its result, and its duration. */
export type OnAttempt = (request: number, result: Attempt['result'], durationMs: number) => void;

/** Exec probes go through the runtime. */
export function probePorts(
  runtime: Pick<Ports<typeof criOperations>, 'cri.execSync'>,
  onAttempt: OnAttempt = () => {},
  vault: Vault = new Vault(randomBytes(KEY_BYTES)),
): ProbePorts {
  const execSync: ExecSync = (input, signal) =>
    runtime['cri.execSync']({ id: 0, input, resume: false, signal, emit: () => {} });
  const context = { execSync, vault };
  return {
    'probe.watch': async (call) => {
      const { input, signal } = call;
      let state = newTally(input.verdict, performance.now());
      while (!signal.aborted) {
        const beganMs = performance.now();
        const attempt = await attemptWithRetries(context, input, signal);
        if (signal.aborted) break;
        onAttempt(call.id, attempt.result, performance.now() - beganMs);
        const { tally: next, items } = tally(state, input, attempt, performance.now());
        state = next;
        for (const item of items) call.emit(item);
        await pause(beganMs + periodMs(input, state) - performance.now(), signal);
      }
      return null;
    },
    'probe.httpHook': httpHook(vault),
  };
}

async function attemptWithRetries(context: ProbeContext, watch: ProbeWatch, signal: AbortSignal): Promise<Attempt> {
  const { handler, timeoutSeconds } = watch;
  let attempt = errored('');
  for (let tries = 0; tries < ATTEMPTS_MAX && attempt.result === 'errored' && !signal.aborted; tries++) {
    attempt = await attemptOnce(context, handler, { timeoutSeconds, signal });
  }
  return attempt;
}

function attemptOnce(
  { execSync, vault }: ProbeContext,
  handler: ProbeHandler,
  options: AttemptOptions,
): Promise<Attempt> {
  switch (handler.kind) {
    case 'exec':
      return probeExec(
        withSecretWords(execSync, handler, vault),
        { ...handler, shown: shownOf(handler, vault) },
        options,
      );
    case 'httpGet':
      return probeHttp({ ...handler, headers: openedHeaders(handler.headers, vault) }, options);
    case 'tcpSocket':
      return probeTcp(handler.host, handler.port, options);
    default:
      return probeGrpc(handler.host, handler.port, handler.service, options);
  }
}

type ExecHandler = Extract<ProbeHandler, { kind: 'exec' }>;

/** The literal words, as an error of a container quotes its command; values of variables stay handles. */
function shownOf({ command, words = [] }: ExecHandler, vault: Vault): readonly string[] {
  const values = new Values(words, vault);
  return command.map((word) => values.put(word));
}

/** The command is sent with the values; its output or error is reported without those of variables. */
const withSecretWords =
  (execSync: ExecSync, { secrets = [], words = [] }: ExecHandler, vault: Vault): ExecSync =>
  async (input, signal) => {
    const values = new Values([...secrets, ...words], vault);
    try {
      const end = await execSync({ ...input, command: input.command.map((word) => values.put(word)) }, signal);
      const redact = (text: string): string => redacted(text, searchableSecrets(secrets, vault), vault);
      return { ...end, stdout: redact(end.stdout), stderr: redact(end.stderr) };
    } catch (error) {
      throw withoutSecrets(error, searchableSecrets(secrets, vault), vault);
    }
  };

const openedHeaders = (headers: readonly Header[], vault: Vault): readonly Header[] =>
  headers.map(({ name, value }) => ({ name, value: openedText(value, vault) }));

type HttpHandler = Extract<ProbeHandler, { kind: 'httpGet' }>;

async function probeHttp({ url, headers }: HttpHandler, { timeoutSeconds, signal }: AttemptOptions): Promise<Attempt> {
  const timeoutMs = timeoutSeconds * 1_000;
  const answer = await httpGet({ url, headers, userAgent: PROBE_AGENT, timeoutMs, signal });
  if ('failed' in answer) return answer.failed === 'body' ? brokenOff(answer.text) : failure(answer.text);
  const { status, body } = answer;
  if (status < STATUS_OK || status >= STATUS_ERROR) return failure(`HTTP probe failed with statuscode: ${status}`);
  if (status < STATUS_REDIRECT) return success(body);
  return { result: 'warning', output: `Probe terminated redirects, Response body: ${body}` };
}

/**
 * Any response is a success; the hook fails only without one. Credentials that were meant for TLS are not sent without.
 */
const httpHook =
  (vault: Vault): Port<(typeof probeOperations)['probe.httpHook']> =>
  async ({ input, signal }) => {
    const headers = openedHeaders(input.headers, vault);
    const get = (url: string, sent: readonly Header[]) =>
      httpGet({ url, headers: sent, userAgent: HOOK_AGENT, timeoutMs: null, signal });
    const answer = await get(input.url, headers);
    if (!('failed' in answer) || answer.failed === 'body') return { fellBack: false };
    const harmless = headers.filter(({ name }) => name.toLowerCase() !== 'authorization');
    const plain = answer.plain ? await get(input.url.replace(/^https:/, 'http:'), harmless) : answer;
    if ('failed' in plain) throw new OperationError(answer.text, { code: 'HOOK_FAILED' });
    return { fellBack: true };
  };
