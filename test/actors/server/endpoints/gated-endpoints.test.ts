/** The endpoints of the kubelet's port that depend on feature gates. */
import { expect, it } from 'vitest';
import { type ApiDependencies, kubeletApi } from '../../../../src/actors/server/kubelet-api.ts';
import type { ApiSettings } from '../../../../src/machines/model/operations/server.ts';

const SETTINGS: ApiSettings = {
  nodeName: 'node1',
  rootDir: '/var/lib/kubelet',
  podLogsDir: '/var/log/pods',
  debuggingHandlers: true,
  systemLogHandler: true,
  systemLogQuery: false,
  profilingHandler: true,
  debugFlagsHandler: true,
  splitStreams: false,
};
/** Nothing here is called without a request. */
const NOBODY = {
  view: { checks: {} },
  requests: { healthchecks: {} },
  program: { startedAt: 0, version: '1.36.2' },
} as unknown as ApiDependencies;

const served = (settings: Partial<ApiSettings> = {}) =>
  kubeletApi({ ...SETTINGS, ...settings }, NOBODY).endpoints.map(({ path }) => path);

it('checkpoints, flags and status are there unless they are turned off', () => {
  const gated = (paths: readonly string[]) =>
    new Set(paths.flatMap((path) => /^\/(checkpoint|flagz|statusz)/.exec(path)?.[1] ?? []));
  expect(gated(served())).toEqual(new Set(['checkpoint', 'flagz', 'statusz']));
  expect(gated(served({ without: ['flagz'] }))).toEqual(new Set(['checkpoint', 'statusz']));
  expect(gated(served({ without: ['checkpoint', 'flagz', 'statusz'] }))).toEqual(new Set());
});
