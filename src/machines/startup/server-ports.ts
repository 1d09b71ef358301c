/** The settings of the node's two ports and its sockets, derived from the configuration. Pure. */

import type { ServerInput } from '../charts/node/server.ts';
import { gatesOf } from '../configuration/fields/feature-gates.ts';
import type { KubeletConfiguration } from '../model/configuration/fields.ts';
import { curveNames } from '../model/configuration/tls-options.ts';
import type { ApiSettings, AuthSettings, LocalSocket, ServedPort } from '../model/operations/server.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import { millisecondsOf } from '../model/values/time.ts';
import type { EstablishedContext } from './context/types.ts';

/** The name of the socket below the root directory. */
export const LOCAL_SOCKET = 'statelet.sock';
/** The file of the certificate that the API server has issued. */
const ISSUED = 'kubelet-server-current.pem';

const GATED = [
  ['ContainerCheckpoint', 'checkpoint'],
  ['ComponentFlagz', 'flagz'],
  ['ComponentStatusz', 'statusz'],
] as const;

function apiSettings({ config, node, settings }: EstablishedContext): ApiSettings {
  const isOn = gatesOf(config);
  const without = GATED.filter(([gate]) => !isOn(gate)).map(([, endpoint]) => endpoint);
  return {
    nodeName: node.nodeName,
    rootDir: settings.rootDir,
    podLogsDir: settings.podLogsDir,
    debuggingHandlers: config.enableDebuggingHandlers,
    systemLogHandler: config.enableSystemLogHandler,
    systemLogQuery: config.enableSystemLogQuery && isOn('NodeLogQuery'),
    profilingHandler: config.enableProfilingHandler,
    debugFlagsHandler: config.enableDebugFlagsHandler,
    splitStreams: isOn('PodLogsQuerySplitStreams'),
    ...(isOn('KubeletPodResourcesListUseActivePods') ? {} : { listsEndedPods: true }),
    ...(without.length === 0 ? {} : { without }),
  };
}

function authSettings(config: KubeletConfiguration): AuthSettings {
  const { authentication, authorization } = config;
  const { anonymous, webhook, x509 } = authentication;
  return {
    anonymous: anonymous.enabled,
    webhookAuthentication: webhook.enabled,
    clientCAFile: x509.clientCAFile,
    ...(gatesOf(config)('ReloadKubeletClientCAFile') ? {} : { isClientCAFixed: true }),
    ...(gatesOf(config)('AllowParsingUserUIDFromCertAuth') ? {} : { ignoresUids: true }),
    authorization: authorization.mode === 'Webhook' ? 'Webhook' : 'AlwaysAllow',
    tokenTtlMs: millisecondsOf(webhook.cacheTTL),
    authorizedTtlMs: millisecondsOf(authorization.webhook.cacheAuthorizedTTL),
    unauthorizedTtlMs: millisecondsOf(authorization.webhook.cacheUnauthorizedTTL),
  };
}

/** The kubelet's port. */
export function apiPort(context: EstablishedContext): ServerInput {
  const { config, flags, node } = context;
  const { address, port, tlsCertFile, tlsPrivateKeyFile, tlsMinVersion, tlsCipherSuites } = config;
  const { tlsCurvePreferences } = config;
  const { certDir } = flags;
  const isIssued = tlsCertFile === '' && config.serverTLSBootstrap;
  const isReplaced = !isIssued && config.serverTLSBootstrap && hasBehavior(context.input, 'certificatesAsKubelet');
  const tls: NonNullable<ServedPort['secure']>['tls'] = {
    certFile: isIssued ? `${certDir}/${ISSUED}` : tlsCertFile,
    keyFile: isIssued ? `${certDir}/${ISSUED}` : tlsPrivateKeyFile,
    ...(isReplaced ? { issuedFile: `${certDir}/${ISSUED}` } : {}),
    mayBeMissing: isIssued,
    minVersion: tlsMinVersion,
    cipherSuites: tlsCipherSuites,
    ...(tlsCurvePreferences.length === 0 ? {} : { curves: curveNames(tlsCurvePreferences) }),
    ...(isIssued || isReplaced || gatesOf(config)('ReloadKubeletServerCertificateFile') ? {} : { isFixed: true }),
  };
  return {
    served: { address, port, settings: apiSettings(context), secure: { tls, auth: authSettings(config) } },
    selfSign: context.ownsCertificate ? { directory: certDir, hostname: node.hostname } : null,
  };
}

/** The socket of the whole API, for users on the node. */
export const localSocket = (context: EstablishedContext): LocalSocket => ({
  path: `${context.settings.rootDir}/${LOCAL_SOCKET}`,
  service: 'api',
  settings: apiSettings(context),
});

/** The socket for agents that monitor devices. */
export const podResourcesSocket = (context: EstablishedContext): LocalSocket => ({
  path: `${context.settings.rootDir}/pod-resources/kubelet.sock`,
  service: 'podResources',
  settings: apiSettings(context),
});

/** The read-only port, without authentication. */
export function readOnlyPort(context: EstablishedContext): ServerInput {
  const { address, readOnlyPort: port } = context.config;
  return { served: { address, port, settings: apiSettings(context), secure: null }, selfSign: null };
}
