/**
 * `statelet critical-chain JOURNAL [pod/NAME]`: what had to happen before healthz answered, or before a pod was
 * Running.
 */
import { type InsightOptions, insight } from '../insight/command.ts';
import { criticalChain, describeChain, goalOf } from '../insight/critical-chain.ts';

export const criticalChainCommand = (log: string, target: string | undefined, options: InsightOptions): number =>
  insight('critical-chain', [log], options, (story) => {
    const goal = goalOf(story, target);
    if (typeof goal === 'string') return goal;
    const chain = criticalChain(story, goal);
    return { json: chain, text: describeChain(chain) };
  });
