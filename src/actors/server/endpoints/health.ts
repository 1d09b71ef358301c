/** `/healthz` and its checks for Kubernetes' health checks. The reason of a failure is only in its own response. */
import { quote } from '../../../machines/model/values/go-text.ts';
import { type Answer, refusal, text } from '../http/answer.ts';
import type { ApiRequest, Endpoint, Subresource } from '../http/endpoint.ts';
import type { Checks } from '../node-pods.ts';

const RIGHTS: readonly Subresource[] = ['healthz', 'proxy'];

export function healthEndpoints(checks: Checks): Endpoint[] {
  return [
    { path: '/healthz', methods: 'any', subresources: RIGHTS, answer: (request) => overview(checks, request) },
    ...Object.entries(checks).map(
      ([name, check]): Endpoint => ({
        path: `/healthz/${name}`,
        methods: 'any',
        subresources: RIGHTS,
        answer: async () => single(await check()),
      }),
    ),
  ];
}

function single(problem: string | null): Answer {
  return problem === null ? text(200, 'ok') : refusal(500, `internal server error: ${problem}`);
}

async function overview(checks: Checks, { query }: ApiRequest): Promise<Answer> {
  const excluded = new Set(query.get('exclude') ?? []);
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      if (excluded.has(name)) return { healthy: true, line: `[+]${name} excluded: ok\n` };
      const healthy = (await check()) === null;
      return { healthy, line: healthy ? `[+]${name} ok\n` : `[-]${name} failed: reason withheld\n` };
    }),
  );
  const healthy = results.every((result) => result.healthy);
  const headers = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };
  if (healthy && !query.has('verbose')) return { status: 200, headers, body: 'ok' };
  const unknown = [...excluded]
    .filter((name) => !(name in checks))
    .toSorted()
    .map(quote);
  const why = 'warn: some health checks cannot be excluded: no matches for';
  const warning = unknown.length === 0 ? '' : `${why} ${unknown.join(',')}\n`;
  const lines = results.map(({ line }) => line).join('') + warning;
  const body = `${lines}healthz check ${healthy ? 'passed' : 'failed'}\n`;
  return { status: healthy ? 200 : 500, headers, body };
}
