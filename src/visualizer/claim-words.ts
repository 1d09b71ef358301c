/** What a pod waits for about its ResourceClaims, in words. Pure. */
import type { ClaimWaitView } from '../actors/server/visualizer/protocol.ts';
import { duration } from './words.ts';

/** `waits for ResourceClaim default/gpu to be prepared by driver gpu.example.test for 41 s (…)` */
export function claimWaitText(wait: ClaimWaitView, now: number): string {
  const { what, claims, drivers, since, failures, error } = wait;
  const claim = claims.length === 0 ? 'its ResourceClaims' : `${plural('ResourceClaim', claims)} ${claims.join(', ')}`;
  const by = drivers.length === 0 ? '' : ` by ${plural('driver', drivers)} ${drivers.join(', ')}`;
  const done = what === 'prepare' ? 'prepared' : 'taken back';
  const times = failures === 1 ? 'failed' : `failed ${failures} times, the last time`;
  const last = error === undefined ? [] : [`${times} ${duration(now - error.t)} ago: ${error.message}`];
  return `waits for ${claim} to be ${done}${by} for ${duration(now - since)} (${[...last, stepText(wait, now)].join('; ')})`;
}

function stepText({ step, what, drivers, stepSince, nextTry }: ClaimWaitView, now: number): string {
  const took = duration(now - stepSince);
  if (step === 'reading') return `the API server has not said for ${took} what they are`;
  if (step === 'calling')
    return `${plural('driver', drivers)} ${drivers.join(', ')} asked ${took} ago, without an answer`;
  if (step === 'pausing')
    return nextTry === undefined ? 'it will be tried again' : `next try in ${duration(Math.max(0, nextTry - now))}`;
  return what === 'prepare' ? `the checkpoint is written for ${took}` : `begun ${took} ago`;
}

const plural = (noun: string, all: readonly unknown[]): string => (all.length === 1 ? noun : `${noun}s`);
