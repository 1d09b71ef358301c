/**
 * The requests of the server thread to the main thread. All communication is in this table.
 *
 * Values are copied, and may hold bytes and 64-bit integers.
 */
import type { Json } from '../../../kernel/json.ts';
import type { KubeletConfiguration } from '../../../machines/model/configuration/fields.ts';
import type { KubeObject, KubeTarget } from '../../../machines/model/operations/kube.ts';
import type { Summary } from '../../stats/usage-types.ts';
import type { CheckpointContainer } from '../endpoints/pods.ts';
import type { Program } from '../endpoints/z-pages.ts';
import type { Insight, ProfileKind } from '../http/inspector.ts';
import type { Family } from '../metrics/instruments.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';
import type { ExecSync, StreamUrls } from '../streaming/endpoints.ts';
import type { Feed } from '../visualizer/feed.ts';
import type { AskOptions, Channel, ReceivedCall } from './channel.ts';
import type { PodsAnswer } from './known-pods.ts';

interface Question<Input, Output> {
  readonly input: Input;
  readonly output: Output;
}

interface Questions {
  /** Pods that changed after the answer with this number; 0 for all. */
  readonly pods: Question<{ readonly since: number }, PodsAnswer>;
  readonly configuration: Question<null, KubeletConfiguration>;
  /** Why each health check of the kernel fails, or `null`. */
  readonly checks: Question<null, Readonly<Record<string, string | null>>>;
  /** Families of one endpoint; `further` are those counted by the thread itself. */
  readonly metrics: Question<
    { readonly endpoint: keyof NodeMetrics; readonly further: readonly Family[] },
    readonly Family[]
  >;
  readonly summary: Question<{ readonly onlyCpuAndMemory: boolean }, Summary>;
  /** Reviews a token or an access at the API server. */
  readonly review: Question<Omit<KubeTarget, 'client'> & { readonly body: Json }, KubeObject>;
  readonly exec: Question<Parameters<StreamUrls['exec']>[0], string>;
  readonly attach: Question<Parameters<StreamUrls['attach']>[0], string>;
  readonly portForward: Question<Parameters<StreamUrls['portForward']>[0], string>;
  readonly execSync: Question<
    Parameters<ExecSync>[0],
    { readonly exitCode: number; readonly stdout: Uint8Array; readonly stderr: Uint8Array }
  >;
  readonly checkpoint: Question<Parameters<CheckpointContainer>[0], null>;
  readonly setVerbosity: Question<number, null>;
  readonly warn: Question<string, null>;
  /** The methods of the visualizer's feed. */
  readonly tree: Question<null, Awaited<ReturnType<Feed['tree']>>>;
  readonly phases: Question<null, Awaited<ReturnType<Feed['phases']>>>;
  readonly podList: Question<null, Awaited<ReturnType<Feed['podList']>>>;
  readonly actor: Question<Parameters<Feed['actor']>[0], Awaited<ReturnType<Feed['actor']>>>;
  readonly records: Question<Parameters<Feed['records']>[0], Awaited<ReturnType<Feed['records']>>>;
  readonly health: Question<null, Awaited<ReturnType<Feed['health']>>>;
  readonly follow: Question<Parameters<Feed['follow']>[0], unknown>;
  readonly facts: Question<null, Awaited<ReturnType<Insight['facts']>>>;
  readonly profile: Question<{ readonly kind: ProfileKind; readonly seconds: number }, string>;
  /** The snapshot is sent in pieces of text, as items. */
  readonly heap: Question<null, null>;
}

export type QuestionAnswers = {
  readonly [Name in keyof Questions]: (
    input: Questions[Name]['input'],
    call: ReceivedCall,
  ) => Questions[Name]['output'] | Promise<Questions[Name]['output']>;
};

export type Ask = <Name extends keyof Questions>(
  name: Name,
  input: Questions[Name]['input'],
  asking?: AskOptions,
) => Promise<Questions[Name]['output']>;

export const asks =
  (channel: Channel): Ask =>
  (name, input, asking) =>
    channel.ask(name, input, asking);

/** The constant input of the thread. */
export interface ThreadFacts {
  readonly flags: Readonly<Record<string, string>>;
  readonly program: Program;
  readonly logDirectory: string;
  /** Names of the kernel's health checks. */
  readonly checks: readonly string[];
}
