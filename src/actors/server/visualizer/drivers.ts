/** The resource drivers of a node and the ResourceClaims that its pods use, as `draManager` has them. Pure. */
import { memberOf } from '../../../kernel/json.ts';
import type { DraManagerContext } from '../../../machines/charts/node/dra/dra-setup.ts';
import type { DriverView } from './protocol.ts';

/** Of one driver; the actor's context has the rest. */
const CLAIMS_MAX = 100;

/** By name; a driver that is not registered is listed while a claim is prepared by it. */
export function driversOf(snapshot: unknown): readonly DriverView[] {
  const context = memberOf(snapshot, 'context') as Partial<DraManagerContext> | undefined;
  const { drivers = {}, cache = {} } = context ?? {};
  const claims = Object.entries(cache);
  const names = new Set([...Object.keys(drivers), ...claims.flatMap(([, claim]) => Object.keys(claim.drivers))]);
  return [...names].toSorted().map((driver) => ({
    driver,
    registrations: (Object.hasOwn(drivers, driver) ? (drivers[driver] ?? []) : []).map(
      ({ endpoint, service, isConnected }) => ({ endpoint, service, isConnected }),
    ),
    claims: claims
      .filter(([, claim]) => Object.hasOwn(claim.drivers, driver))
      .slice(0, CLAIMS_MAX)
      .map(([claim, { pods, isPrepared, isEnding, drivers: devices }]) => ({
        claim,
        pods,
        state: isEnding ? 'ending' : isPrepared ? 'prepared' : 'unprepared',
        devices: (devices[driver] ?? []).map(({ pool, device }) => `${pool}/${device}`),
      })),
  }));
}
