/** What happened to a row of the seed documents: built here, or replaced because upstream removed it. */
import type { Proof } from '../support/proofs.ts';

/**
 * A reference: `src/file.ts#name` (declared in that file), `machine: path.of.states` (a state of that machine's chart),
 * or the name of an operation such as `host.hostname`.
 */
export type Ref = string;
interface Named {
  readonly id: string;
  readonly name: string;
}
export interface Built extends Named {
  readonly kind: 'built';
  readonly here: readonly Ref[];
  readonly tests: readonly Proof[];
}
/** Upstream has removed it. `flag` is refused, with a hint at its replacement. */
export interface Instead extends Named {
  readonly kind: 'instead';
  readonly instead: string;
  readonly flags: readonly string[];
}
export type Row = Built | Instead;

type OneOrMore = string | readonly string[];
const list = (values: OneOrMore): readonly string[] => (typeof values === 'string' ? [values] : values);

export const built = (id: string, name: string, here: OneOrMore, tests: OneOrMore): Built => ({
  kind: 'built',
  id,
  name,
  here: list(here),
  tests: list(tests),
});

export const instead = (id: string, name: string, what: string, flags: OneOrMore = []): Instead => ({
  kind: 'instead',
  id,
  name,
  instead: what,
  flags: list(flags),
});

/** Test files by the names that the rows use. */
export const TESTS = {
  boot: 'test/machines/startup/boot.test.ts',
  failures: 'test/machines/startup/boot-failures.test.ts',
  golden: 'test/machines/startup/boot-golden.test.ts',
  kubelet: 'test/machines/startup/kubelet.test.ts',
  corpus: 'test/machines/configuration/corpus.test.ts',
  flags: 'test/machines/configuration/flags/flags.test.ts',
  resolve: 'test/machines/configuration/resolve.test.ts',
  values: 'test/machines/model/values/values.test.ts',
  lockFile: 'test/machines/startup/host/lock-file.test.ts',
  refusals: 'test/machines/startup/refusals.test.ts',
  runtimeService: 'test/machines/startup/runtime-service.test.ts',
  runtimeState: 'test/machines/charts/node/runtime-state.test.ts',
  runOnce: 'test/machines/startup/run-once.test.ts',
  runOnceDaemon: 'test/node/run-once.test.ts',
  daemon: 'test/node/standalone.test.ts',
  lock: 'test/actors/host/lock.test.ts',
  limits: 'test/actors/host/kernel/limits.test.ts',
  machine: 'test/actors/host/machine.test.ts',
  manifests: 'test/actors/host/manifests/manifests.test.ts',
  configuration: 'test/actors/host/configuration/configuration.test.ts',
  files: 'test/actors/host/files.test.ts',
  healthz: 'test/actors/server/healthz.test.ts',
  server: 'test/machines/charts/node/server.test.ts',
  serverTls: 'test/actors/server/tls/tls.test.ts',
  authMatrix: 'test/actors/server/auth-matrix.test.ts',
  requested: 'test/actors/server/recordings.test.ts',
  watchPods: 'test/actors/cri/watch-pods.test.ts',
  subsystems: 'test/machines/charts/pods/subsystems.test.ts',
  observation: 'test/machines/charts/pods/observation.test.ts',
  pod: 'test/machines/charts/pods/pod/pod.test.ts',
  faults: 'test/machines/charts/pods/faults.test.ts',
  staticPod: 'test/machines/model/pods/static-pod.test.ts',
  spec: 'test/machines/model/spec/spec.test.ts',
  requests: 'test/machines/model/spec/requests.golden.test.ts',
  resources: 'test/machines/model/spec/resources.test.ts',
  status: 'test/machines/charts/pods/status/status.golden.test.ts',
  reasons: 'test/machines/model/reasons/reasons.golden.test.ts',
  random: 'test/kernel/kernel.test.ts',
} as const;
