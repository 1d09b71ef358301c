/** `/containerLogs/<namespace>/<pod>/<container>`: the log of a container, up to now or followed. */
import { Readable } from 'node:stream';
import { codeOf, messageOf } from '../../../kernel/thrown.ts';
import type { ContainerStatus as PodContainerStatus, PodStatus } from '../../../machines/model/api/pod.ts';
import { quote } from '../../../machines/model/values/go-text.ts';
import { missingText } from '../../go-errors.ts';
import { type Answer, type ApiRequest, type Endpoint, pageNotFound, text } from '../http/endpoint.ts';
import { containerLog, type LogOptions, nanoseconds } from '../logs/log-file.ts';
import { type ApiView, containerSpec, type NodePod, podNamed } from '../node-pods.ts';

const UNDECODABLE = text(400, '{"message": "Unable to decode query."}');
const INVALID = text(422, '{"message": "Invalid request."}');
const INT64_MAX = 2n ** 63n - 1n;
const NANOSECONDS_PER_MS = 1_000_000n;
const NANOSECONDS_PER_SECOND = 1_000_000_000n;

interface LogQuery extends LogOptions {
  readonly follow: boolean;
  readonly previous: boolean;
}

export function containerLogsEndpoints(view: ApiView, splitStreams: boolean): Endpoint[] {
  const answer = (request: ApiRequest) => logs(view, request, splitStreams);
  const common = { methods: ['GET'], subresources: ['proxy'] } as const;
  return [
    { ...common, produces: [], path: '/containerLogs/:namespace/:pod/:container', answer },
    ...['/containerLogs', '/containerLogs/*'].map(
      (path): Endpoint => ({
        ...common,
        path,
        methods: 'any',
        answer: pageNotFound,
      }),
    ),
  ];
}

async function logs(view: ApiView, request: ApiRequest, splitStreams: boolean): Promise<Answer> {
  const {
    namespace,
    pod: podName,
    container,
  } = request.parameters as Record<'namespace' | 'pod' | 'container', string>;
  const query = logQuery(request.query);
  if (query === 'undecodable') return UNDECODABLE;
  if (query === 'invalid') return INVALID;
  const stream = request.query.get('stream')?.[0] ?? 'All';
  if (stream !== 'All' && !splitStreams) return text(400, withoutGate(stream));
  const found = podNamed(await view.pods(), namespace, podName);
  if (!found) return text(404, `pod ${quote(podName)} does not exist`);
  if (!containerSpec(found.pod, container)) {
    return text(404, `container ${quote(container)} not found in pod ${quote(podName)}`);
  }
  const instance = instanceOf(found, container, query.previous);
  if ('refusal' in instance) return stream400(instance.refusal);
  return { status: 200, headers: {}, body: Readable.from(body(view, found.uid, instance, query, request.signal)) };
}

/** An error without a content type: upstream starts the response before it looks for the container. */
const stream400 = (why: string): Answer => ({ status: 400, headers: {}, body: Readable.from([Buffer.from(why)]) });

const withoutGate = (stream: string): string =>
  `unable to return the given log stream: ${quote(stream)}. Please enable PodLogsQuerySplitStreams feature gate in kubelet`;

function logQuery(query: ReadonlyMap<string, readonly string[]>): LogQuery | 'undecodable' | 'invalid' {
  const number = (name: string) => integer(query.get(name)?.[0]);
  const [limitBytes, sinceSeconds] = [number('limitBytes'), number('sinceSeconds')];
  const tail = integer(tailLines(query));
  const given = query.get('sinceTime')?.[0] ?? '';
  const sinceText = given === '' || given === 'null' ? undefined : given;
  const sinceTime = sinceText === undefined ? null : nanoseconds(sinceText);
  if (tail === 'bad' || limitBytes === 'bad' || sinceSeconds === 'bad') return 'undecodable';
  if (sinceText !== undefined && sinceTime === null) return 'undecodable';
  const stream = query.get('stream')?.[0] ?? 'All';
  const isInvalid =
    (tail !== null && tail < 0n) ||
    (limitBytes !== null && limitBytes < 1n) ||
    (sinceSeconds !== null && (sinceSeconds < 1n || sinceTime !== null)) ||
    !['All', 'Stdout', 'Stderr'].includes(stream) ||
    (stream !== 'All' && tail !== null);
  if (isInvalid) return 'invalid';
  const now = BigInt(Date.now()) * NANOSECONDS_PER_MS;
  return {
    follow: isTrue(query.get('follow')?.[0]),
    previous: isTrue(query.get('previous')?.[0]),
    timestamps: isTrue(query.get('timestamps')?.[0]),
    // Go multiplies in 64 bits: with more than 292 years it gets a time in the future for half of all values.
    since: sinceSeconds === null ? sinceTime : now - BigInt.asIntN(64, sinceSeconds * NANOSECONDS_PER_SECOND),
    tail: tail === null ? null : Number(tail),
    limitBytes: limitBytes === null ? null : Number(limitBytes),
    streams: stream === 'All' ? ['stdout', 'stderr'] : [stream === 'Stdout' ? 'stdout' : 'stderr'],
  };
}

/** The requested number of lines. The parameter has an older name as well, whose value `all` means no limit. */
function tailLines(query: ReadonlyMap<string, readonly string[]>): string | undefined {
  const older = query.get('tail')?.[0] || undefined;
  if (older === undefined) return query.get('tailLines')?.[0];
  return older === 'all' ? undefined : older;
}

function integer(value: string | undefined): bigint | null | 'bad' {
  if (value === undefined) return null;
  if (!/^[+-]?\d{1,32}$/.test(value)) return 'bad';
  const parsed = BigInt(value.replace(/^\+/, ''));
  return parsed > INT64_MAX || parsed < -INT64_MAX - 1n ? 'bad' : parsed;
}

/** Whether a parameter is true: only `false` and `0` are false. */
const isTrue = (value: string | undefined): boolean => value !== undefined && !/^(false|0)$/i.test(value);

const statusOf = (status: PodStatus | null, name: string): PodContainerStatus | undefined =>
  [
    ...(status?.containerStatuses ?? []),
    ...(status?.initContainerStatuses ?? []),
    ...(status?.ephemeralContainerStatuses ?? []),
  ].find((container) => container.name === name);

type Instance = { readonly containerId: string } | { readonly refusal: string };

/** The instance whose log is requested, by its id in the status: `containerd://<id>`. */
function instanceOf({ name: podName, status }: NodePod, container: string, previous: boolean): Instance {
  const where = `container ${quote(container)} in pod ${quote(podName)}`;
  const found = statusOf(status, container);
  if (!found) return { refusal: `${where} is not available` };
  const { state, lastState } = found;
  const last = lastState?.terminated?.containerID ?? '';
  if (previous) return last === '' ? { refusal: `previous terminated ${where} not found` } : { containerId: last };
  if (state?.running) return { containerId: found.containerID ?? '' };
  if (state?.terminated || lastState?.terminated) {
    const containerId = state?.terminated?.containerID || last;
    return containerId === '' ? { refusal: `${where} is terminated` } : { containerId };
  }
  if (!state?.waiting) return { refusal: `${where} is waiting to start - no logs yet` };
  return { refusal: `${where} is waiting to start: ${waitingFor(state.waiting.reason ?? '')}` };
}

function waitingFor(reason: string): string {
  if (reason === 'ErrImagePull') return "image can't be pulled";
  return reason === 'ImagePullBackOff' ? 'trying and failing to pull image' : reason;
}

async function* body(
  view: ApiView,
  uid: string,
  { containerId }: { readonly containerId: string },
  query: LogQuery,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const id = containerId.slice(containerId.indexOf('://') + 3);
  const instance = async () => {
    const pod = (await view.pods()).find((known) => known.uid === uid);
    return pod?.runtime?.containers.find((container) => container.id === id);
  };
  const path = (await instance())?.log_path ?? '';
  if (path === '') {
    yield Buffer.from(`unable to retrieve container logs for ${containerId}`);
    return;
  }
  const isRunning = async () => (await instance())?.state === 'CONTAINER_RUNNING';
  try {
    yield* containerLog(path, query, query.follow ? { signal, isRunning } : undefined);
  } catch (error) {
    const [code, message] = [codeOf(error), messageOf(error)];
    const why = code === 'ENOENT' ? await missingText(path) : message;
    yield Buffer.from(`failed to try resolving symlinks in path ${quote(path)}: ${why}`);
  }
}
