/** Which values that users write into pods the visualizer hides. */
import { expect, it } from 'vitest';
import { HIDDEN, hidden } from '../../../../src/actors/server/visualizer/trim.ts';
import { assign, setup } from '../../../../src/kernel/xstate.ts';
import { fetch, listen, watched } from './support.ts';

const CANARY = 'canary-1f3d';
const container = {
  name: 'c',
  image: `https://me:${CANARY}@registry.example/a`,
  env: [
    { name: 'PASSWORD', value: CANARY },
    { name: 'REF', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
  ],
  livenessProbe: { httpGet: { path: '/', httpHeaders: [{ name: 'Authorization', value: CANARY }] } },
};
const pod = {
  metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(container) } },
  spec: { containers: [container] },
  cri: { envs: [{ key: 'PASSWORD', value: CANARY }] },
  oci: { process: { env: [`PASSWORD=${CANARY}`] } },
  probe: { url: `http://u:${CANARY}@p@10.0.0.1/`, headers: [{ name: 'X', value: CANARY }] },
  staticPodURLHeader: { Authorization: [CANARY] },
};

it('hides values and keeps their names', () => {
  const shown = hidden(pod);
  expect(JSON.stringify(shown)).not.toContain(CANARY);
  expect(shown).toMatchObject({
    spec: {
      containers: [
        {
          image: `https://${HIDDEN}@registry.example/a`,
          env: [{ name: 'PASSWORD', value: HIDDEN }, container.env[1]],
        },
      ],
    },
    oci: { process: { env: [`PASSWORD=${HIDDEN}`] } },
    probe: { url: `http://${HIDDEN}@10.0.0.1/`, headers: [{ name: 'X', value: HIDDEN }] },
  });
});

it('gives back what hides nothing as it is', () => {
  const plain = { a: [1, { b: 'c' }], url: 'http://10.0.0.1/x@y', environment: null };
  expect(hidden(plain)).toBe(plain);
});

it('costs in proportion to the text: four times as much costs no more than ten times', () => {
  const cost = (text: string): number => {
    const before = performance.now();
    hidden(text);
    return performance.now() - before;
  };
  for (const piece of ['a://', 'a.', 'http://a', '://@']) {
    const least = (count: number): number => Math.min(...[1, 2, 3, 4, 5].map(() => cost(piece.repeat(count))));
    least(200_000);
    expect(least(800_000) / Math.max(least(200_000), 1), piece).toBeLessThan(10);
  }
});

const keeper = setup({
  types: { context: {} as { pod: object }, events: {} as { type: 'keep'; pod: object } },
}).createMachine({
  id: 'keeper',
  context: { pod: {} },
  on: { keep: { actions: assign({ pod: ({ event }) => event.pod }) } },
});

it('holds for contexts, for records, and for the stream', async () => {
  const { origin, kernel, close } = await watched({ machine: keeper });
  const stream = await listen(origin);
  await stream.next();
  kernel.dispatch('keeper', { type: 'keep', pod }, 'test');
  const pages = [JSON.stringify(await stream.next())];
  for (const path of ['/api/actor?address=keeper', '/api/records', '/api/tree']) {
    pages.push(await (await fetch(new URL(path, origin))).text());
  }
  stream.close();
  await close();
  expect(pages.join('')).toContain('PASSWORD');
  expect(pages.join('')).not.toContain(CANARY);
});
