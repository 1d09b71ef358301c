/**
 * Why a case of the configuration corpus is not compared with the pure pipeline, and which parts decide about single
 * lines.
 *
 * `ENDS_ELSEWHERE` and `LINES_ELSEWHERE` depend on a running daemon, on facts of the host or on clients. `EXCUSED` has
 * the cases in which the measured binary differs from upstream, or this product deliberately differs from both.
 */

/** The ends of a kubelet for reasons outside of the configuration: by the part that decides. */
export const ENDS_ELSEWHERE: readonly (readonly [part: string, pattern: RegExp])[] = [
  ['clients', /invalid kubeconfig|unable to load (bootstrap )?kubeconfig/],
  ['certificates', /client-ca-bundle|ca\.crt: no such file|open \/does\/not\/exist/],
  ['certificates', /find any PEM data|CipherSuites is missing/],
  ['runtime endpoint', /validate service connection/],
  ['credential providers (test/node/credential-providers.test.ts)', /Failed to register CRI auth plugins/],
  ['cgroups of the host', /has some missing paths/],
  ['CPUs and memory of the host', /is not a subset of online-cpus|Expected capacity >= reservation/],
  ['directories', /could not initialize checkpoint manager/],
  ['ports', /bind: address already in use|listen tcp: lookup/],
];

/** Lines of a running kubelet, by the part that writes them. */
export const LINES_ELSEWHERE: readonly (readonly [part: string, pattern: RegExp])[] = [
  ['static pods', /^"(Adding|Unable to read config path|Could not process manifest|Provided manifest path)/],
  ['static pods', /^"Failed to read pods from URL/],
  ['API server', /127\.0\.0\.1:1\/|not found"|"Unable to register/],
  ['node status', /^"Failed to set some node status fields"/],
  ['CPU manager', /^"(created with configuration|Static policy initialized|Option --reserved-cpus|After cpu setting)/],
  ['topology manager', /^"Creating topology manager with policy per scope"/],
  ['node shutdown', /node shutdown manager"/],
  ['eviction manager', /^"eviction manager: /],
  ['runtime', /MetricDescriptors|streaming container event/],
  ['memory QoS on cgroup v1', /^"Warning: MemoryQoS feature/],
  ['resolv.conf of the mounter', /^"Could not write dns nameserver/],
  ['environment', /^"Golang settings"/],
  ['cAdvisor, which this product does not have', /^(Couldn't collect info|Unknown event storage policy)/],
];

/** A line that only this product has: which fields have no effect in it. */
export const OWN_LINE = /^"Warning: this feature gate has no effect here\."/;

const UPSTREAM_REFUSES_GATES =
  'The measured binary only warns about an unknown feature gate; upstream refuses to start, and so do we.';
const OWN_HELP = 'The help has the same flags, types and defaults; its sentences are our own.';

export const EXCUSED: Readonly<Record<string, string>> = {
  'cli-h': OWN_HELP,
  'cli-help': OWN_HELP,
  'cli-version-and-help': OWN_HELP,
  'cli-version-raw': 'Commit, date and compiler in the line are those of another build.',
  'flag-one-log-cadvisor-usage':
    'The kubelet dies there without a word, inside the built-in cAdvisor, which this product does not have.',
  'gates-cfg-unknown': UPSTREAM_REFUSES_GATES,
  'gates-flag-ga-removed': UPSTREAM_REFUSES_GATES,
  'gates-flag-lowercase': UPSTREAM_REFUSES_GATES,
  'gates-flag-unknown': UPSTREAM_REFUSES_GATES,
  'gates-flag-unknown-with-known': UPSTREAM_REFUSES_GATES,
};

const SYSTEMD =
  'The recorded machine had no systemd, either. The kubelet only looked for folders; this node says that systemd is not there.';

/** Cases of {@link ENDS_ELSEWHERE} in which the daemon ends with another text than the kubelet, and why. */
export const NOT_EQUAL: Readonly<Record<string, string>> = {
  'flag-one-cgroup-driver-eq-systemd': SYSTEMD,
  'val-cgroupdriver-02': SYSTEMD,
  'reserved-cfg-too-much-memory':
    'The kubelet prints a Go structure; this node names the amounts. The capacity is that of the recorded machine.',
};
