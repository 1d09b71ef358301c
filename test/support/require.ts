/**
 * The requirements of tests: containerd, a browser, root.
 *
 * A test whose requirements are not met is skipped and says why. `STATELET_REQUIRE` lists requirements (separated by
 * commas or spaces) that must be met, so that a CI job that promises a browser fails without one instead of skipping
 * tests.
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
 * `reason`: why the requirement is not met on this machine, or null if it is. Use it as
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
