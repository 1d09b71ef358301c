/** Names of a live run as the recordings write them: `<uid:p>`, `<cid:c:0>`, `${ROOT}`, `p` for `p-node1`. */

import type { Recorded, Recording } from '../../machines/model/spec/recordings.ts';
import type { Message, RecordedCall } from '../../support/cri-proxy.ts';
import type { ComparedCall } from './compare.ts';
import type { GoldenNode, Published } from './golden-node.ts';

const NODE_SUFFIX = '-node1';
/** The variables of the service `kubernetes` in every pod of a cluster. */
const SERVICE_VARIABLE = /^KUBERNETES_(SERVICE_|PORT)/;

export const isServiceVariable = (key: string): boolean => SERVICE_VARIABLE.test(key);

export class Names {
  readonly #recording: Recording;
  readonly #replacements: readonly (readonly [string | RegExp, string])[];
  /** The ids of this case's sandboxes and containers. */
  readonly #ids = new Map<string, string>();

  constructor(golden: GoldenNode, recording: Recording, published: readonly Published[]) {
    this.#recording = recording;
    const { node, words, proxy } = golden;
    const uids = new Map(published.map(({ uid, name }) => [uid, this.podOf(name)]));
    this.#count(proxy.calls);
    this.#replacements = [
      ...[...uids].map(([uid, pod]) => [uid, `<uid:${pod}>`] as const),
      ...this.#ids,
      [node.rootDir, '${ROOT}'],
      [node.logs, '${LOGS}'],
      ...[...words].map(([recorded, here]) => [here, recorded] as const),
      // With version 2 of cgroups, the nodes of tests have no root of their own.
      [/\/statelet-[0-9a-z]+(?=\/kubepods)|(?<=")(?=\/kubepods)/g, '/golden'],
      ...[...new Set(uids.values())].map((pod) => [nodeName(pod), pod] as const),
      [/\b10\.2\d\d\.\d+\.\d+\b/g, '<ip>'],
      [/\b127\.0\.0\.1\b/g, '<node-ip>'],
      [/\/(\w+)@sha256:[0-9a-f]{64}/g, '/$1@sha256:<digest:$1>'],
    ];
  }

  podOf(name: string): string {
    return name.slice(0, -NODE_SUFFIX.length);
  }

  isOfCase({ request }: RecordedCall): boolean {
    const config = (request['sandbox_config'] ?? request['config']) as Recorded;
    if (config?.metadata?.namespace !== undefined) return config.metadata.namespace === this.#recording.name;
    return this.#ids.has((request['container_id'] ?? request['pod_sandbox_id']) as string);
  }

  inWordsOfTheCase({ method, request, response }: RecordedCall): ComparedCall {
    return this.translated({ method, request: readable(request), response: response ?? {} });
  }

  translated<Value>(value: Value): Value {
    let text = JSON.stringify(value);
    for (const [found, name] of this.#replacements) text = text.replaceAll(found, name);
    return JSON.parse(text) as Value;
  }

  /** Numbers ids in the order in which the runtime returned them, per pod or container as the recordings do. */
  #count(calls: readonly RecordedCall[]): void {
    const counts = new Map<string, number>();
    const next = (name: string): number => counts.set(name, (counts.get(name) ?? -1) + 1).get(name)!;
    const hasSeveralPods = this.#recording.objects.filter(({ kind }) => kind === 'Pod').length > 1;
    for (const { request, response } of calls) {
      const config = (request['sandbox_config'] ?? request['config']) as Recorded;
      if (config?.metadata?.namespace !== this.#recording.name) continue;
      const pod = this.podOf(config.metadata.name);
      const container = (request['config'] as Recorded)?.metadata?.name;
      const { image, user_specified_image: specified } = (request['config'] as Recorded)?.image ?? {};
      if (image !== undefined) this.#ids.set(image, `sha256:<imageid:${repositoryOf(specified)}>`);
      if (response?.['pod_sandbox_id'])
        this.#ids.set(response['pod_sandbox_id'] as string, `<sid:${pod}:${next(pod)}>`);
      if (response?.['container_id']) {
        const name = hasSeveralPods ? `${pod}/${container}` : container;
        this.#ids.set(response['container_id'] as string, `<cid:${name}:${next(name)}>`);
      }
    }
  }
}

/** Shows the bytes of variables as text. */
function readable(request: Message): Message {
  const config = request['config'] as Recorded;
  if (config?.envs === undefined) return request;
  const envs = config.envs.map(({ key, value = '' }: Recorded) => ({
    key,
    value: Buffer.from(value, 'base64').toString(),
  }));
  return { ...request, config: { ...config, envs } };
}

/** The name of a static pod contains the node; other texts of its request do not. */
const nodeName = (pod: string): RegExp => new RegExp(`(?<![A-Za-z0-9-])${pod}${NODE_SUFFIX}(?![A-Za-z0-9-])`, 'g');

/** `slow/x` for `localhost:5000/slow/x:1`. */
const repositoryOf = (image: string): string => image.replace(/^[^/]+\//, '').replace(/:\w+$/, '');
