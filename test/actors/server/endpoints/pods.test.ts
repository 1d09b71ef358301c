import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { podsEndpoint } from '../../../../src/actors/server/endpoints/pods.ts';
import type { ApiRequest } from '../../../../src/actors/server/http/endpoint.ts';
import type { ApiView } from '../../../../src/actors/server/node-pods.ts';
import type { PodStatus } from '../../../../src/machines/model/api/pod.ts';

interface Item {
  readonly status: PodStatus;
}

const recorded = JSON.parse(readFileSync(join(import.meta.dirname, '../../../golden/http/pods.json'), 'utf8')) as {
  readonly items: readonly Item[];
};

/** The status as the pods' actors have it: without times that are not set. */
const known = ({ conditions = [], ...status }: PodStatus): PodStatus => ({
  ...status,
  conditions: conditions.map(({ lastProbeTime, ...rest }) =>
    lastProbeTime == null ? rest : { lastProbeTime, ...rest },
  ),
});

it('a condition has the fields that the kubelet gives it, also a time that is not set', async () => {
  const pods = recorded.items.map((pod) => ({ pod, status: known(pod.status), runtime: null }));
  const { answer } = podsEndpoint({ pods: () => pods } as unknown as ApiView);
  const { body } = (await answer({} as ApiRequest)) as { readonly body: string };
  const { items } = JSON.parse(body) as { readonly items: readonly Item[] };
  expect(items.length).toBeGreaterThan(0);
  expect(items.map(({ status }) => status.conditions)).toEqual(recorded.items.map(({ status }) => status.conditions));
});
