/**
 * Counts of started and failed pods and containers, of their image volumes, and of failed or unusual hooks; and the
 * results and durations of probes, in a registry of their own for `/metrics/probes`.
 */
import { Registry } from 'prom-client';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { StateRecord } from '../../../../kernel/records.ts';
import type { PodContext } from '../../../../machines/charts/pods/pod/pod-context.ts';
import { type Hook, podActor } from '../../../../machines/model/pods/pod-messages.ts';
import type { NodeEffect, NodeMessageRecord, NodeRecord, NodeResult } from '../../../node-records.ts';
import { contextOf } from '../../../node-records.ts';
import type { Projection, RecordContext, UnderWay } from '../instruments.ts';
import {
  counter,
  DEFAULT_BUCKETS,
  histogram,
  Instruments,
  isPodActor,
  MS_PER_SECOND,
  podContext,
  podContextAt,
} from '../instruments.ts';

const CONTAINER_ADDRESS = /^(?<pod>kubelet\/pods\/pod-[^/]+)\/container-(?<container>[^/]+)/;
const CODES: Readonly<Record<string, string>> = {
  'cri.startContainer': 'RunContainerError',
  'cri.createContainer': 'CreateContainerError',
};

/** The used fields of a container's context. */
interface Hooked {
  readonly wanted: { readonly postStart: Hook | null; readonly preStop: Hook | null };
}

interface Sleep {
  readonly sinceMs: number;
  readonly wantedMs: number;
}

export class ContainerWork extends Instruments implements Projection {
  readonly recordKinds = ['message', 'effect', 'result', 'state'] as const;
  readonly #families = families(this.registry);
  /** By address of the container. */
  readonly #sleeping = new Map<string, Sleep>();

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'message') this.#messageReceived(record, kernel);
    else if (record.k === 'effect') this.#operationRequested(record, kernel);
    else if (record.k === 'result' && request) this.#done(request, record, kernel);
    else if (record.k === 'state') this.#changed(record, kernel);
  }

  /**
   * Counts starts and their failures. A start begins with the request for the container's image; a request for the
   * image of a volume, whose name follows a slash, is no start.
   */
  #messageReceived({ from, to, event }: NodeMessageRecord, kernel: Kernel): void {
    const { started, errors } = this.#families.containers;
    if (event.type === 'image.wanted' && !event.container.includes('/')) {
      started.inc({ container_type: typeOfContainer(addressOf(event), kernel) });
    } else if (isPodActor(to) && event.type === 'image.failed' && !event.container.includes('/')) {
      errors.inc({ container_type: typeOfContainer(addressOf(event), kernel), code: event.reason });
    } else if (event.type === 'container.refused') {
      errors.inc({ container_type: typeOfContainer(to, kernel), code: event.reason });
    } else if (event.type === 'event.recorded' && event.reason === 'FailedPostStartHook') {
      errors.inc({ container_type: typeOfContainer(from, kernel), code: 'PostStartHookError' });
    }
  }

  #operationRequested({ at, ...request }: NodeEffect, kernel: Kernel): void {
    const { pods, userPods, imageVolumes } = this.#families;
    if (request.name === 'cri.runPodSandbox') {
      pods.started.inc();
      if (hasOwnUsers(at, kernel)) userPods.started.inc();
    } else if (request.name === 'cri.createContainer') imageVolumes.wanted.inc(imageMounts(request.input));
  }

  #done(request: UnderWay, result: NodeResult, kernel: Kernel): void {
    const { pods, userPods, sandboxes, containers, imageVolumes, fallbacks } = this.#families;
    const { address, sinceMs } = request;
    const { error } = result;
    const code = CODES[request.name];
    if (request.name === 'cri.runPodSandbox') {
      const runtime_handler = request.input.runtimeHandler ?? '';
      sandboxes.durations.observe({ runtime_handler }, (kernel.now - sinceMs) / MS_PER_SECOND);
      if (!error) return;
      sandboxes.errors.inc({ runtime_handler });
      pods.errors.inc();
      if (hasOwnUsers(address, kernel)) userPods.errors.inc();
    } else if (result.name === 'probe.httpHook' && result.output?.fellBack) fallbacks.inc();
    else if (code !== undefined && error) {
      containers.errors.inc({ container_type: typeOfContainer(address, kernel), code });
    }
    if (request.name === 'cri.createContainer') {
      imageVolumes[error ? 'failed' : 'mounted'].inc(imageMounts(request.input));
    }
  }

  /** Counts a sleeping hook that ends early, because its container or its grace period has ended. */
  #changed({ at, value }: StateRecord, kernel: Kernel): void {
    const { pod, container } = CONTAINER_ADDRESS.exec(at)?.groups ?? {};
    if (container === undefined || at !== `${pod}/container-${container}`) return;
    const sleep = this.#sleeping.get(at);
    const isAsleep = JSON.stringify(value).includes('"sleeping"');
    if (isAsleep && !sleep) this.#sleeping.set(at, { sinceMs: kernel.now, wantedMs: sleepOf(at, value, kernel) });
    if (isAsleep || !sleep) return;
    this.#sleeping.delete(at);
    if (kernel.now - sleep.sinceMs < sleep.wantedMs) this.#families.cutSleeps.inc();
  }
}

function sleepOf(address: string, value: unknown, kernel: Kernel): number {
  const hooks = contextOf<Hooked>(kernel, address)?.wanted;
  const isEnding = typeof value === 'object' && value !== null && 'stopping' in value;
  const hook = isEnding ? hooks?.preStop : hooks?.postStart;
  return hook?.kind === 'sleep' ? hook.seconds * MS_PER_SECOND : 0;
}

const addressOf = ({ uid, container }: { readonly uid: string; readonly container: string }): string =>
  `kubelet/pods/${podActor(uid)}/container-${container}`;

const imageMounts = ({ config }: (NodeEffect & { readonly name: 'cri.createContainer' })['input']): number =>
  (config.mounts ?? []).filter(({ image }) => image?.image).length;

const hasOwnUsers = (address: string, kernel: Kernel): boolean =>
  podContextAt(address, kernel)?.pod?.spec.hostUsers === false;

function typeOfContainer(address: string, kernel: Kernel): string {
  const { pod = '', container = '' } = CONTAINER_ADDRESS.exec(address)?.groups ?? {};
  const spec = podContext(pod, kernel)?.pod?.spec;
  if (spec?.initContainers?.some(({ name }) => name === container)) return 'init_container';
  return spec?.ephemeralContainers?.some(({ name }) => name === container) ? 'ephemeral_container' : 'container';
}

function families(registry: Registry) {
  const sum = (name: string, help: string, stability = 'ALPHA') =>
    counter(registry, `kubelet_${name}`, `[${stability}] ${help}`);
  return {
    pods: {
      started: sum('started_pods_total', 'Cumulative number of pods started'),
      errors: sum('started_pods_errors_total', 'Cumulative number of errors when starting pods'),
    },
    userPods: {
      started: sum(
        'started_user_namespaced_pods_total',
        'Cumulative number of pods with user namespaces started. This metric will only be collected on Linux.',
      ),
      errors: sum(
        'started_user_namespaced_pods_errors_total',
        'Cumulative number of errors when starting pods with user namespaces. This metric will only be collected on Linux.',
      ),
    },
    ...labelled(registry),
    imageVolumes: {
      wanted: sum('image_volume_requested_total', 'Number of requested image volumes.', 'BETA'),
      mounted: sum('image_volume_mounted_succeed_total', 'Number of successful image volume mounts.', 'BETA'),
      failed: sum('image_volume_mounted_errors_total', 'Number of failed image volume mounts.', 'BETA'),
    },
    fallbacks: sum(
      'lifecycle_handler_http_fallbacks_total',
      'The number of times lifecycle handlers successfully fell back to http from https.',
    ),
    cutSleeps: sum(
      'sleep_action_terminated_early_total',
      'The number of times lifecycle sleep handler got terminated before it finishes',
    ),
  };
}

const labelled = (registry: Registry) => ({
  containers: {
    started: counter(registry, 'kubelet_started_containers_total', '[ALPHA] Cumulative number of containers started', [
      'container_type',
    ]),
    errors: counter(
      registry,
      'kubelet_started_containers_errors_total',
      '[ALPHA] Cumulative number of errors when starting containers',
      ['container_type', 'code'],
    ),
  },
  sandboxes: {
    durations: histogram(
      registry,
      'kubelet_run_podsandbox_duration_seconds',
      '[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.',
      DEFAULT_BUCKETS,
      ['runtime_handler'],
    ),
    errors: counter(
      registry,
      'kubelet_run_podsandbox_errors_total',
      '[ALPHA] Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.',
      ['runtime_handler'],
    ),
  },
});

const LABELS = ['container', 'namespace', 'pod', 'probe_type'] as const;
type Labels = Readonly<Record<(typeof LABELS)[number], string>>;

const RESULTS: Readonly<Record<string, string>> = { success: 'successful', failure: 'failed' };

interface Attempt {
  readonly container: string;
  readonly kind: string;
  readonly result: string;
  readonly durationMs: number;
}

/** Invariant: series of a pod are removed when the pod has ended or is gone. */
export class ProbeWork implements Projection {
  readonly recordKinds = ['message'] as const;
  readonly registry = new Registry();
  readonly #total = counter(
    this.registry,
    'prober_probe_total',
    '[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.',
    [...LABELS, 'pod_uid', 'result'],
  );
  readonly #duration = histogram(
    this.registry,
    'prober_probe_duration_seconds',
    '[ALPHA] Duration in seconds for a probe response.',
    DEFAULT_BUCKETS,
    LABELS,
  );
  /** By pod uid, the probes that were counted. */
  readonly #counted = new Map<string, Map<string, Labels>>();

  on(record: NodeRecord): void {
    if (record.k !== 'message' || record.to !== 'kubelet/status') return;
    const { event } = record;
    if (event.type === 'status.removed') this.#forget(event.uid);
    if (event.type !== 'status.changed') return;
    const { phase } = event.status;
    if (phase === 'Succeeded' || phase === 'Failed') this.#forget(event.pod.uid);
  }

  /**
   * Counts an attempt. As upstream, the duration of a failed attempt is not observed, and an attempt without a result
   * does not count.
   */
  attempted({ namespace, name, uid }: PodContext, { container, kind, result, durationMs }: Attempt): void {
    if (RESULTS[result] === undefined) return;
    const labels = { container, namespace, pod: name, probe_type: kind.charAt(0).toUpperCase() + kind.slice(1) };
    const counted = this.#counted.get(uid) ?? new Map<string, Labels>();
    this.#counted.set(uid, counted.set(`${container}/${kind}`, labels));
    this.#total.inc({ ...labels, pod_uid: uid, result: RESULTS[result] });
    if (result !== 'failure') this.#duration.observe(labels, durationMs / MS_PER_SECOND);
  }

  #forget(uid: string): void {
    for (const labels of this.#counted.get(uid)?.values() ?? []) {
      for (const result of Object.values(RESULTS)) this.#total.remove({ ...labels, pod_uid: uid, result });
      this.#duration.remove(labels);
    }
    this.#counted.delete(uid);
  }
}
