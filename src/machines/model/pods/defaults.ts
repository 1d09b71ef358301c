/**
 * The defaults of the API's Pod: what the API server would have filled in (`SetObjectDefaults_Pod`).
 *
 * A static pod never passes an API server, so the agent sets them. It fills in absent fields and changes no others.
 * Invariant: applying the defaults twice gives the same as once.
 */
import {
  type Container,
  DEFAULT_GRACE_SECONDS,
  type EnvVar,
  type HTTPGetAction,
  type Lifecycle,
  type LifecycleHandler,
  type Pod,
  type PodSpec,
  type Probe,
  type ResourceList,
  type ResourceRequirements,
  type Volume,
  type VolumeProjection,
} from '../api/pod.ts';
import { pullPolicy } from '../spec/image.ts';
import { podLimits, podRequests } from '../spec/resources.ts';
import { VOLUME_KINDS } from '../validation/pod-schema.ts';
import {
  formatBinary,
  formatDecimal,
  formatQuantity,
  fromMilli,
  milliUnits,
  type Nano,
  parseQuantity,
} from '../values/quantity.ts';

/** rw-r--r-- */
const VOLUME_FILE_MODE = 0o644;
const TOKEN_EXPIRATION_SECONDS = 3_600;

/** Completes a specification. Without `asKubelet` it sets only the fields that nodes of 0.2.0 set. */
export function withDefaults(spec: PodSpec, asKubelet = true): PodSpec {
  const filled = withOldDefaults(spec, asKubelet);
  if (!asKubelet) return filled;
  return {
    ...filled,
    ...(filled.volumes ? { volumes: filled.volumes.map(withPluginDefaults) } : {}),
    ...(filled.resources ? { resources: podResources(filled, filled.resources) } : {}),
  };
}

function withOldDefaults(spec: PodSpec, asKubelet: boolean): PodSpec {
  const hostNetwork = spec.hostNetwork ?? false;
  return {
    ...spec,
    ...(spec.volumes ? { volumes: spec.volumes.map(volumeDefaults) } : {}),
    ...(spec.initContainers
      ? { initContainers: spec.initContainers.map((each) => containerDefaults(each, hostNetwork, asKubelet)) }
      : {}),
    containers: spec.containers.map((each) => containerDefaults(each, hostNetwork, asKubelet)),
    restartPolicy: spec.restartPolicy || 'Always',
    terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
    dnsPolicy: spec.dnsPolicy || 'ClusterFirst',
    securityContext: spec.securityContext ?? {},
    schedulerName: spec.schedulerName || 'default-scheduler',
    enableServiceLinks: spec.enableServiceLinks ?? true,
    ...(spec.resources
      ? { resources: asKubelet ? amountsRoundedUp(spec.resources) : requestsFromLimits(spec.resources) }
      : {}),
    ...(spec.overhead ? { overhead: roundedUp(spec.overhead) } : {}),
  };
}

function containerDefaults(container: Container, hostNetwork: boolean, asKubelet: boolean): Container {
  const { env, ports, lifecycle, livenessProbe, readinessProbe, startupProbe } = container;
  return {
    ...container,
    ...(env ? { env: env.map((each) => envDefaults(each, asKubelet)) } : {}),
    ...(ports ? { ports: ports.map((port) => portDefaults(port, hostNetwork)) } : {}),
    resources: requestsFromLimits(container.resources ?? {}),
    ...(lifecycle ? { lifecycle: lifecycleDefaults(lifecycle) } : {}),
    ...(livenessProbe ? { livenessProbe: probeDefaults(livenessProbe) } : {}),
    ...(readinessProbe ? { readinessProbe: probeDefaults(readinessProbe) } : {}),
    ...(startupProbe ? { startupProbe: probeDefaults(startupProbe) } : {}),
    terminationMessagePath: container.terminationMessagePath || '/dev/termination-log',
    terminationMessagePolicy: container.terminationMessagePolicy || 'File',
    imagePullPolicy: container.imagePullPolicy || pullPolicy(container),
  };
}

type Port = NonNullable<Container['ports']>[number];

/** On the host's network a container's port is the host's. */
function portDefaults(port: Port, hostNetwork: boolean): Port {
  const hostPort = hostNetwork && !port.hostPort ? port.containerPort : port.hostPort;
  return { ...port, ...(hostPort === undefined ? {} : { hostPort }), protocol: port.protocol || 'TCP' };
}

function envDefaults(variable: EnvVar, asKubelet: boolean): EnvVar {
  const { fieldRef, resourceFieldRef, fileKeyRef } = variable.valueFrom ?? {};
  if (!fieldRef && !(asKubelet && (resourceFieldRef || fileKeyRef))) return variable;
  return {
    ...variable,
    valueFrom: {
      ...variable.valueFrom,
      ...(fieldRef ? { fieldRef: fieldRefDefaults(fieldRef) } : {}),
      ...(asKubelet && resourceFieldRef ? { resourceFieldRef: { divisor: '0', ...resourceFieldRef } } : {}),
      ...(asKubelet && fileKeyRef ? { fileKeyRef: { optional: false, ...fileKeyRef } } : {}),
    },
  };
}

const fieldRefDefaults = <Ref extends { readonly apiVersion?: string }>(ref: Ref): Ref => ({
  ...ref,
  apiVersion: ref.apiVersion || 'v1',
});

/** An absent request equals the limit; amounts below a thousandth are rounded up to one. */
function requestsFromLimits(resources: ResourceRequirements): ResourceRequirements {
  const { limits, requests } = resources;
  if (!limits && !requests) return resources;
  return {
    ...resources,
    ...(limits ? { limits: roundedUp(limits) } : {}),
    requests: roundedUp({ ...limits, ...requests }),
  };
}

const amountsRoundedUp = (resources: ResourceRequirements): ResourceRequirements => ({
  ...resources,
  ...(resources.limits ? { limits: roundedUp(resources.limits) } : {}),
  ...(resources.requests ? { requests: roundedUp(resources.requests) } : {}),
});

const HUGE_PAGES = 'hugepages-';
const isShared = (name: string): boolean => name === 'cpu' || name === 'memory';

/** A pod with limits requests what its containers request together, and of other resources its limits. */
function podResources(spec: PodSpec, resources: ResourceRequirements): ResourceRequirements {
  const { resources: _ofPod, ...rest } = spec;
  const { limits = {}, requests = {} } = resources;
  if (Object.keys({ ...limits, ...requests }).length === 0) return resources;
  const containers: Pod = { metadata: { name: '', namespace: '', uid: '' }, spec: rest };
  const pages = Object.entries(podLimits(containers)).filter(
    ([name]) => name.startsWith(HUGE_PAGES) && !Object.hasOwn(requests, name),
  );
  const allLimits = { ...written(pages), ...limits };
  if (Object.keys(allLimits).length === 0) return resources;
  const together = Object.entries(podRequests(containers)).filter(([name]) => isShared(name));
  const limited = Object.entries(allLimits).filter(([name]) => isShared(name) || name.startsWith(HUGE_PAGES));
  const allRequests = { ...Object.fromEntries(limited), ...written(together), ...requests };
  return {
    ...resources,
    limits: allLimits,
    ...(Object.keys(allRequests).length > 0 ? { requests: allRequests } : {}),
  };
}

const written = (amounts: ReadonlyArray<readonly [string, Nano]>): ResourceList =>
  Object.fromEntries(
    amounts.map(([name, amount]) => [name, name === 'cpu' ? formatDecimal(amount) : formatBinary(amount)]),
  );

function roundedUp(amounts: ResourceList): ResourceList {
  const entries = Object.entries(amounts).map(([name, amount]) => {
    const parsed = parseQuantity(amount);
    if (parsed.error !== undefined) return [name, amount];
    return [name, formatQuantity({ ...parsed.value, nano: fromMilli(milliUnits(parsed.value.nano)) })];
  });
  return Object.fromEntries(entries);
}

function probeDefaults(probe: Probe): Probe {
  return {
    ...probe,
    ...(probe.httpGet ? { httpGet: httpGetDefaults(probe.httpGet) } : {}),
    ...(probe.grpc ? { grpc: { ...probe.grpc, service: probe.grpc.service ?? '' } } : {}),
    timeoutSeconds: probe.timeoutSeconds || 1,
    periodSeconds: probe.periodSeconds || 10,
    successThreshold: probe.successThreshold || 1,
    failureThreshold: probe.failureThreshold || 3,
  };
}

const httpGetDefaults = (action: HTTPGetAction): HTTPGetAction => ({
  ...action,
  path: action.path || '/',
  scheme: action.scheme || 'HTTP',
});

function lifecycleDefaults(lifecycle: Lifecycle): Lifecycle {
  const { postStart, preStop } = lifecycle;
  return {
    ...lifecycle,
    ...(postStart ? { postStart: handlerDefaults(postStart) } : {}),
    ...(preStop ? { preStop: handlerDefaults(preStop) } : {}),
  };
}

const handlerDefaults = (handler: LifecycleHandler): LifecycleHandler =>
  handler.httpGet ? { ...handler, httpGet: httpGetDefaults(handler.httpGet) } : handler;

function volumeDefaults(volume: Volume): Volume {
  const { hostPath, image, secret, configMap, downwardAPI, projected } = volume;
  const defaultMode = VOLUME_FILE_MODE;
  return {
    ...volume,
    ...(VOLUME_KINDS.some((kind) => Object.hasOwn(volume, kind)) ? {} : { emptyDir: {} }),
    ...(hostPath ? { hostPath: { ...hostPath, type: hostPath.type ?? '' } } : {}),
    ...(image
      ? { image: { ...image, pullPolicy: image.pullPolicy || pullPolicy({ image: image.reference ?? '' }) } }
      : {}),
    ...(secret ? { secret: { defaultMode, ...secret } } : {}),
    ...(configMap ? { configMap: { defaultMode, ...configMap } } : {}),
    ...(downwardAPI ? { downwardAPI: { defaultMode, ...withFieldRefs(downwardAPI) } } : {}),
    ...(projected
      ? { projected: { defaultMode, ...projected, sources: (projected.sources ?? []).map(projectionDefaults) } }
      : {}),
  };
}

/** Sets the defaults of vendors' volume plugins, whose volumes this agent only shows. */
function withPluginDefaults(volume: Volume): Volume {
  const { iscsi, rbd, azureDisk, scaleIO, downwardAPI } = volume;
  const disk = { cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' };
  return {
    ...volume,
    ...(iscsi ? { iscsi: { iscsiInterface: 'default', ...iscsi } } : {}),
    ...(rbd ? { rbd: { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring', ...rbd } } : {}),
    ...(azureDisk ? { azureDisk: { ...disk, ...azureDisk } } : {}),
    ...(scaleIO ? { scaleIO: { storageMode: 'ThinProvisioned', fsType: 'xfs', ...scaleIO } } : {}),
    ...(downwardAPI ? { downwardAPI: withDivisors(downwardAPI) } : {}),
  };
}

function withDivisors<Of extends DownwardSource>(source: Of): Of {
  if (!source.items) return source;
  const items = source.items.map((item) =>
    item.resourceFieldRef ? { ...item, resourceFieldRef: { divisor: '0', ...item.resourceFieldRef } } : item,
  );
  return { ...source, items };
}

type DownwardSource = NonNullable<VolumeProjection['downwardAPI']>;

function withFieldRefs<Source extends DownwardSource>(source: Source): Source {
  if (!source.items) return source;
  const items = source.items.map((item) =>
    item.fieldRef ? { ...item, fieldRef: fieldRefDefaults(item.fieldRef) } : item,
  );
  return { ...source, items };
}

function projectionDefaults(source: VolumeProjection): VolumeProjection {
  const { downwardAPI, serviceAccountToken } = source;
  return {
    ...source,
    ...(downwardAPI ? { downwardAPI: withFieldRefs(downwardAPI) } : {}),
    ...(serviceAccountToken
      ? { serviceAccountToken: { expirationSeconds: TOKEN_EXPIRATION_SECONDS, ...serviceAccountToken } }
      : {}),
  };
}
