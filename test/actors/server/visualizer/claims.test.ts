/** What a pod waits for about its ResourceClaims, in the page and in `statelet why`, and the drivers of its node. */
import { expect, it } from 'vitest';
import { driversOf, nextTryOf } from '../../../../src/actors/server/visualizer/pods.ts';
import type { PodView } from '../../../../src/actors/server/visualizer/protocol.ts';
import { Story } from '../../../../src/bin/insight/story.ts';
import { describeWhy, type Why, why } from '../../../../src/bin/insight/why.ts';
import type { HeaderRecord } from '../../../../src/kernel/records.ts';
import { podAnswer } from '../../../../src/visualizer/pod-answer.ts';
import { ClaimingPod, DRIVER } from '../../../support/claiming-pod.ts';

/** A pod as the reader of its journal and its page show it. */
class WatchedPod extends ClaimingPod {
  get story(): Story {
    const { records } = this.cluster.node.sink;
    const source = { header: records[0] as HeaderRecord, checkpoint: undefined, checkpointAfter: () => undefined };
    return new Story({ ...source, records }, this.cluster.node.world.time.now());
  }

  get why(): Why {
    const report = why(this.story, 'pod/p', this.cluster.node.kernel.timers.list());
    if (typeof report === 'string') throw new Error(report);
    return report;
  }

  /** The first line of its story in the page. */
  answer(): string {
    const wait = this.story.claims.waitOf(this.uid);
    const pod: PodView = {
      uid: this.uid,
      pod: 'default/p',
      phase: 'Pending',
      ready: false,
      restarts: 0,
      n: 0,
      seen: 0,
    };
    const timers = this.cluster.node.kernel.timers.list().filter(({ target }) => target.endsWith(`pod-${this.uid}`));
    const next = nextTryOf(timers.map(({ due, event }) => ({ due, event: event.type })));
    const claims = wait ? { claims: { ...wait, ...next } } : {};
    return podAnswer({ ...pod, ...claims }, [], [], this.cluster.node.world.time.now());
  }

  drivers = () => driversOf(this.cluster.node.kernel.snapshotOf('kubelet/draManager'));
}

it('a driver that is not registered: which claim, whose, since when, how often it failed, and the next try', () => {
  const pod = new WatchedPod({ hasDriver: false });
  pod.cluster.node.run(20_000);
  const { claims, summary } = pod.why;
  expect(claims).toMatchObject({ what: 'prepare', step: 'pausing', claims: ['default/mine'], failures: 5 });
  expect(claims!.nextTryMs).toBeGreaterThan(claims!.sinceMs + claims!.forMs);
  expect(claims).toMatchObject({ error: `prepare dynamic resources: DRA driver ${DRIVER} is not registered` });
  const error = `prepare dynamic resources: DRA driver ${DRIVER} is not registered`;
  expect(summary).toMatch(
    new RegExp(
      String.raw`^default/p is Pending; it waits for ResourceClaim default/mine to be prepared by driver ${DRIVER} ` +
        String.raw`for \d+\.\d s \(failed 5 times, the last time [\d.]+ m?s ago: ${error}; next try in [\d.]+ s\)`,
    ),
  );
  expect(pod.answer()).toContain(`: waits for ResourceClaim default/mine to be prepared by driver ${DRIVER} for `);
  expect(describeWhy(pod.why)).toContain(error);
  pod.register();
  pod.cluster.node.run(30_000);
  expect(pod.why).not.toHaveProperty('claims');
});

it('a driver that refuses says why', () => {
  const pod = new WatchedPod({ hasDriver: false });
  pod.cluster.node.world.dra.refusals.set('mine', 'no memory left');
  pod.register();
  pod.cluster.node.run(3_000);
  expect(pod.answer()).toMatch(
    /\(failed 2 times, the last time [\d.]+ s ago: .*: no memory left; next try in [\d.]+ s\)$/,
  );
});

it('a driver that does not answer: since when it was asked', () => {
  const pod = new WatchedPod({ hasDriver: false });
  pod.cluster.node.world.fault = (name) => (name === 'dra.prepare' ? { extraMs: 40_000 } : undefined);
  pod.register();
  pod.cluster.node.run(20_000);
  expect(pod.answer()).toContain(`driver ${DRIVER} asked `);
  const [wait] = pod.why.waits.filter(({ what }) => what === 'dra.prepare');
  expect(wait).toMatchObject({ target: `${DRIVER} (default/mine)` });
});

it('a driver that does not take a claim back, after the end of its pod', () => {
  const pod = new WatchedPod();
  pod.cluster.node.run(20_000);
  expect(pod.drivers()).toMatchObject([
    {
      driver: DRIVER,
      registrations: [{ endpoint: '/dra.sock', isConnected: true }],
      claims: [{ claim: 'default/mine', pods: [pod.uid], state: 'prepared', devices: ['node/mine-device'] }],
    },
  ]);
  pod.cluster.node.world.dra.refusals.set('mine', 'busy');
  pod.cluster.kube.delete('pods', 'p');
  pod.cluster.node.run(60_000);
  expect(pod.why.claims).toMatchObject({ what: 'unprepare', claims: ['default/mine'], drivers: [DRIVER] });
  expect(pod.answer()).toMatch(
    /waits for ResourceClaim default\/mine to be taken back by driver .+: .*busy; next try in/,
  );
  pod.cluster.node.world.dra.refusals.clear();
  pod.cluster.node.run(300_000);
  expect(pod.story.claims.waitOf(pod.uid)).toBeUndefined();
  expect(pod.drivers()).toMatchObject([{ claims: [] }]);
});
