/** Which endpoints the kubelet's port has, as far as feature gates decide it. */
import { expect, test } from 'vitest';
import { type ApiDependencies, kubeletApi } from '../../../src/actors/server/kubelet-api.ts';
import type { ApiSettings } from '../../../src/machines/operations/server.ts';

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
/** Nothing of it is asked before a request comes. */
const NOBODY = { view: {}, requests: {}, program: { startedAt: 0, version: '1.36.2' } } as unknown as ApiDependencies;

const served = (settings: Partial<ApiSettings> = {}) =>
  kubeletApi({ ...SETTINGS, ...settings }, NOBODY).endpoints.map(({ path }) => path);

test('checkpoints, flags and status are there unless they are turned off', () => {
  const gated = (paths: readonly string[]) => paths.filter((path) => /^\/(checkpoint|flagz|statusz)/.test(path));
  expect(gated(served())).toHaveLength(3);
  expect(gated(served({ without: ['flagz'] })).join()).toMatch(/checkpoint.*statusz/);
  expect(gated(served({ without: ['checkpoint', 'flagz', 'statusz'] }))).toEqual([]);
  expect(served({ without: ['checkpoint', 'flagz', 'statusz'] })).toHaveLength(served().length - 3);
});
