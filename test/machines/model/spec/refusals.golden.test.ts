/** Requests that the recorded kubelet refused before it called the runtime, and the hosts files that it wrote. */
import { describe, expect, it } from 'vitest';
import { containerConfig } from '../../../../src/machines/model/spec/container.ts';
import { podFiles } from '../../../../src/machines/model/spec/paths.ts';
import { usersRefusal } from '../../../../src/machines/model/spec/security.ts';
import { volumePlan } from '../../../../src/machines/model/volumes/plan.ts';
import { node, type Recorded, recordings } from './recordings.ts';

const LATE = Number.POSITIVE_INFINITY;
const REASON = 'CreateContainerConfigError';

interface Refusal {
  readonly case: string;
  readonly at: number;
  readonly container: string;
  readonly message: string;
}

const refusals: readonly Refusal[] = recordings.flatMap((recording) => {
  const found = recording.statuses.flatMap(({ at, status }) =>
    (status.containerStatuses ?? [])
      .filter(({ state }: Recorded) => state.waiting?.reason === REASON)
      .map((each: Recorded) => ({
        case: recording.name,
        at,
        container: each.name,
        message: each.state.waiting.message,
      })),
  );
  return found.slice(0, 1);
});

describe('a container that cannot be configured', () => {
  it('is recorded', () => {
    expect(refusals.map((refusal) => refusal.case)).toEqual([
      'config-error-secret-key',
      'env-from-missing',
      'run-as-nonroot',
      'vol-subpathexpr-missing',
    ]);
  });

  it.each(refusals)('waits with the text of $case', (refusal) => {
    const recording = recordings.find(({ name }) => name === refusal.case);
    const pod = recording?.podAt('<uid:p>', LATE);
    const container = pod?.spec.containers.find(({ name }) => name === refusal.container);
    if (recording === undefined || pod === undefined || container === undefined) throw new Error('no such object');
    const { late: _late, ...configMaps } = recording.references.configMaps;
    const result = containerConfig({
      pod,
      container,
      kind: 'regular',
      restartCount: 0,
      imageRef: 'sha256:1',
      image: null,
      podIPs: ['10.0.0.5'],
      node,
      terminationLogFile: '/log',
      volumes: volumePlan({ pod, node, objects: {} }).mounted,
      references: { ...recording.references, configMaps },
    });
    expect(result).toEqual({ error: { reason: REASON, message: refusal.message } });
  });
});

it('refuses user namespaces with the text of sc-procmount-userns', () => {
  const recording = recordings.find(({ name }) => name === 'sc-procmount-userns');
  const pod = recording?.podAt('<uid:p>', LATE);
  const event = recording?.writes.find(({ body }) => body?.reason === 'FailedCreatePodSandBox')?.body;
  if (pod === undefined) throw new Error('no such object');
  expect(usersRefusal(pod, '', node)).toBe(event.message.replace('Failed to create pod sandbox: ', ''));
});

it.each(['p', 'q'])('writes the hosts file of host-aliases-hostname/%s', (name) => {
  const recording = recordings.find((each) => each.name === 'host-aliases-hostname');
  const pod = recording?.podAt(`<uid:${name}>`, LATE);
  if (recording === undefined || pod === undefined) throw new Error('no such object');
  const { files } = podFiles(pod, node, ['<ip>']);
  const content = files.find(({ path }) => path.endsWith('/etc-hosts'))?.content;
  if (typeof content !== 'string') throw new Error('no hosts file of its own');
  const [recorded, printed] = [recording.extra.hosts[name], hostnameOutput(name)];
  expect(`${content}${printed}`).toBe(recorded);
});

/** The recorder printed the file in the container, followed by the output of two commands that name the host. */
function hostnameOutput(name: string): string {
  const hostname = name === 'p' ? 'hn' : 'hn2.sub.host-aliases-hostname.svc.cluster.local';
  return `${hostname}\n${hostname}\n`;
}
