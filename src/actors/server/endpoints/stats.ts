/** `/stats/summary`: what the node, its pods and their containers use, measured at each request. */

import { messageOf } from '../../../kernel/thrown.ts';
import { ofRunningPods, type Summary, statsText } from '../../stats/summary-types.ts';
import { json, pageNotFound, text } from '../http/answer.ts';
import { type ApiRequest, type Endpoint, first } from '../http/endpoint.ts';

/** Measures the node now. Rejects when there is nothing to measure with. */
export interface NodeStats {
  summary(options: { readonly onlyCpuAndMemory: boolean }): Promise<Summary>;
}

export function statsEndpoints(stats: NodeStats): Endpoint[] {
  const nowhere = (path: string): Endpoint => ({ path, methods: 'any', subresources: ['stats'], answer: pageNotFound });
  return [
    {
      path: '/stats/summary',
      methods: ['GET', 'POST'],
      produces: ['application/json'],
      subresources: ['stats'],
      answer: (request) => summary(request, stats),
    },
    nowhere('/stats'),
    nowhere('/stats/*'),
  ];
}

async function summary(request: ApiRequest, stats: NodeStats) {
  const onlyCpuAndMemory = /^(1|t|T|TRUE|true|True)$/.test(first(request, 'only_cpu_and_memory') ?? '');
  try {
    const measured = await stats.summary({ onlyCpuAndMemory });
    return json(statsText(ofRunningPods(measured), 1));
  } catch (error) {
    return text(500, `Internal Error: ${messageOf(error)}`);
  }
}
