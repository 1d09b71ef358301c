/** What holds when nothing has gone wrong for a while. */
import type { Simulation } from './simulation.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- pods as the API server has them
type Any = any;

const isTerminal = (phase: string | undefined): boolean => phase === 'Succeeded' || phase === 'Failed';
const QUIET_MS = 120_000;
/** Timers that look again, and no more. */
const QUIET_TURNS_MAX = 200;

export function checkPeace(simulation: Simulation): void {
  const wanted = new Set<string>();
  for (const pod of simulation.pods()) {
    wanted.add(pod.metadata.uid);
    checkPod(simulation, pod.metadata.uid, pod);
  }
  for (const { uid, value } of simulation.manifests) {
    wanted.add(uid);
    const name = (value as Any).metadata.name;
    const mirror = simulation.cluster.kube.pod(`${name}-node`);
    if (!mirror) simulation.rules.say(`${uid} has no mirror`);
    else checkPod(simulation, uid, mirror);
  }
  checkLeftovers(simulation, wanted);
  checkBooks(simulation, wanted);
  checkQuiet(simulation);
}

/** Its sandbox died before it was initialised, and it never restarts: it stays as it is, as upstream's does. */
const isLost = ({ node }: Simulation, uid: string, { spec, status }: Any): boolean =>
  spec.restartPolicy === 'Never' &&
  status.phase === 'Pending' &&
  JSON.stringify(node.podState(uid)) === JSON.stringify({ terminated: 'kept' });

function checkPod(simulation: Simulation, uid: string, pod: Any): void {
  const { node, rules } = simulation;
  const say = (text: string) => rules.say(`${uid} ${text}; ${JSON.stringify(node.podState(uid))}`);
  const { phase, containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  const own = node.status(uid);
  if (pod.metadata.deletionTimestamp) return say(`is still being deleted, ${phase}`);
  if (phase !== own?.phase) say(`is ${phase} there and ${own?.phase} here`);
  const shown = (list: Any) =>
    JSON.stringify(
      (list ?? [])
        .map((each: Any) => [
          each.name,
          each.containerID ?? '',
          each.ready,
          each.restartCount,
          Object.keys(each.state ?? {}),
        ])
        .toSorted(),
    );
  if (shown(own?.containerStatuses) !== shown(containerStatuses)) say('has other containers there than here');
  if (shown(own?.initContainerStatuses) !== shown(initContainerStatuses)) say('has other init containers there');
  const running = [...node.world.runtime.containers.values()].filter(
    ({ sandbox, state }) => sandbox.config.metadata?.uid === uid && state === 'CONTAINER_RUNNING',
  );
  if (isTerminal(phase)) {
    if (running.length > 0) say(`is ${phase} and runs`);
    if (pod.spec.restartPolicy === 'Always' && !pod.status.reason) say(`is ${phase} though it restarts always`);
    return;
  }
  if (isLost(simulation, uid, pod)) return;
  if (phase !== 'Running')
    return say(
      `is ${phase}: ${JSON.stringify([...initContainerStatuses, ...containerStatuses].map((each: Any) => [each.name, each.state]))} ${pod.status.reason}`,
    );
  const ids = new Set(running.map(({ id }) => id));
  for (const each of [...initContainerStatuses, ...containerStatuses]) {
    const id = each.state?.running && each.containerID?.replace(/^.*:\/\//, '');
    if (each.state?.running && !ids.delete(id)) say(`${each.name} is said to run as ${each.containerID}`);
    const isEnded = each.state?.terminated !== undefined;
    if (!each.ready && !isEnded) say(`${each.name} is not ready: ${JSON.stringify(each)}`);
    if (isEnded && pod.spec.restartPolicy === 'Always' && containerStatuses.includes(each))
      say(`${each.name} stays ended`);
  }
  for (const id of ids) say(`runs ${id}, which is not said`);
}

function checkLeftovers({ node, rules, cluster }: Simulation, wanted: ReadonlySet<string>): void {
  const { world } = node;
  for (const uid of world.runtime.uids) if (!wanted.has(uid)) rules.say(`${uid} is still in the runtime`);
  for (const path of [...world.folders, ...world.files.keys()]) {
    const uid = /\/kubelet\/pods\/([^/]+)/.exec(path)?.[1];
    if (uid !== undefined && !wanted.has(uid)) rules.say(`${path} is left`);
  }
  for (const path of world.groups.keys()) {
    const uid = /\/pod([^/]+)$/.exec(path)?.[1];
    if (uid !== undefined && !wanted.has(uid)) rules.say(`cgroup ${path} is left`);
  }
  const open = node.kernel.checkpoint().effects.filter((effect) => effect.class !== 'stream');
  for (const { name, at } of open) rules.say(`${at} still waits for ${name}`);
  for (const address of node.kernel.addresses) {
    const uid = /^kubelet\/(?:pods|status)\/pod-([^/]+)$/.exec(address)?.[1];
    if (uid !== undefined && !wanted.has(uid)) rules.say(`${address} is left`);
  }
  for (const uid of world.remembered.keys()) if (!wanted.has(uid)) rules.say(`${uid} is remembered`);
  const mirrors = cluster.kube.store.list('v1', 'pods').filter(({ metadata }) => /^[stu]-node$/.test(metadata.name));
  const statics = [...wanted].filter((uid) => uid.startsWith('static')).length;
  if (mirrors.length !== statics) rules.say(`${mirrors.length} mirrors for ${statics} static pods`);
  for (const [table, entries] of Object.entries(world.softState)) {
    for (const key of Object.keys(entries)) if (!wanted.has(key.split('/')[0]!)) rules.say(`memory of ${table} ${key}`);
  }
}

function checkBooks({ node, rules }: Simulation, wanted: ReadonlySet<string>): void {
  const { context } = node.kernel.snapshotOf('kubelet/allocation') as Any;
  for (const table of ['grants', 'over', 'rejections', 'waiting', 'unjudged', 'resizes', 'arranging']) {
    for (const uid of Object.keys(context[table])) if (!wanted.has(uid)) rules.say(`${table} of ${uid} is left`);
  }
  for (const uid of wanted) {
    const isOver = JSON.stringify(node.podState(uid)) === JSON.stringify({ terminated: 'kept' });
    if (isOver === uid in context.grants) rules.say(`${uid} is ${node.phase(uid)}, grant ${uid in context.grants}`);
  }
}

function checkQuiet({ node, rules, cluster }: Simulation): void {
  const { turn } = node.kernel;
  const calls = node.world.calls.length;
  const writes = cluster.kube.requests.length;
  node.run(QUIET_MS);
  const made = node.world.calls.slice(calls).map(({ name, pod }) => `${name} ${pod}`);
  if (made.length > 20) rules.say(`${made.length} calls in quiet: ${[...new Set(made)].join()}`);
  const written = cluster.kube.requests.slice(writes).map(({ verb, path }) => `${verb} ${path}`);
  if (written.some((each) => !/^(get|list)/.test(each))) rules.say(`in quiet: ${written.join()}`);
  if (node.kernel.turn - turn > QUIET_TURNS_MAX) rules.say(`${node.kernel.turn - turn} turns in quiet`);
}
