/** Every endpoint of the recorded kubelet with every credential: who is allowed, row by row. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { exchange, headerOf } from './exchange.ts';
import { GoldenNode } from './golden-node.ts';
import { golden } from './golden-records.ts';

interface Row {
  readonly endpoint: string;
  readonly method: string;
  readonly credential: string;
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const rows: Row[] = golden('auth-matrix.tsv')
  .trimEnd()
  .split('\n')
  .slice(1)
  .map((line) => {
    const [endpoint = '', method = '', credential = '', status, type = '', body = ''] = line.split('\t');
    return { endpoint, method, credential, status: Number(status), type, body };
  });

/** Other tests compare the bodies of successes; refusals are compared completely. */
const isJudged = ({ status, body }: Row): boolean => status >= 400 && body !== '(body)';
const escaped = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\t', '\\t').slice(0, 300);

let node: GoldenNode;
let port: number;

beforeAll(async () => {
  node = await GoldenNode.start();
  port = await node.serve('A');
});
afterAll(() => node.close());

async function ask({ endpoint, method, credential }: Row) {
  const reply = await exchange(method, endpoint, { port, shown: node.shown(credential) });
  return { status: reply.status, type: headerOf(reply, 'content-type') ?? '', body: reply.body.toString('utf8') };
}

it(`all ${rows.length} rows of the authorization matrix`, { timeout: 400_000 }, async () => {
  const wrong: string[] = [];
  const PARALLEL = 8;
  const queue = rows.slice();
  const work = async () => {
    for (let row = queue.shift(); row; row = queue.shift()) {
      const got = await ask(row);
      const isSame =
        got.status === row.status && got.type === row.type && (!isJudged(row) || escaped(got.body) === row.body);
      if (isSame) continue;
      const { endpoint, method, credential, status, type, body } = row;
      wrong.push(
        `${method} ${endpoint} by ${credential}: ${status} ${type} ${body}\n    but ${got.status} ${got.type} ${escaped(got.body)}`,
      );
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  expect(rows).toHaveLength(1_776);
  expect(wrong.toSorted()).toEqual([]);
});
