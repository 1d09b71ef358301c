/**
 * What a test needs of the machine it runs on: containerd, a browser, root.
 *
 * A test that cannot run here is skipped and says why. `STATELET_REQUIRE` lists requirements (by comma or space) that
 * must be there, so that a CI job which promises a browser fails when it has none instead of skipping in silence.
 */
export type Requirement =
  | 'apiserver'
  | 'arm64'
  | 'browser'
  | 'cgroup-v1'
  | 'cgroup-v2'
  | 'containerd'
  | 'faketime'
  | 'guest'
  | 'kubectl'
  | 'kubelet'
  | 'loop'
  | 'promtool'
  | 'registry'
  | 'root'
  | 'logind';

/**
 * `reason` is why the requirement cannot be met on this machine, or null when it is met. Use it as
 * `describe.skipIf(requirement('browser', reason).skip)`.
 */
export function requirement(name: Requirement, reason: string | null): { skip: boolean } {
  if (reason === null) return { skip: false };
  const required = (process.env['STATELET_REQUIRE'] ?? '').split(/[\s,]+/);
  if (required.includes(name)) {
    throw new Error(`STATELET_REQUIRE asks for ${name}, which this machine cannot give: ${reason}`);
  }
  process.stderr.write(`skipped, needs ${name}: ${reason}\n`);
  return { skip: true };
}
