/**
 * A connection to a bus of D-Bus.
 *
 * Decides: it says `Hello` itself. The library would, and throws where nothing catches it when the bus does not answer
 * in time, as one does on a machine that is overloaded: that would end the agent.
 * Invariant: whatever becomes of the connection rejects `broken`, and nothing else.
 */
import { createClient, type DBusError, type Message, type MessageBus } from 'dbus-native';
import { memberOf } from '../kernel/json.ts';

/**
 * How long libdbus, GDBus and sd-bus wait. An answer takes milliseconds; one that takes longer than this never comes.
 */
export const CALL_TIMEOUT_MS = 25_000;

const HELLO: Message = {
  destination: 'org.freedesktop.DBus',
  path: '/org/freedesktop/DBus',
  interface: 'org.freedesktop.DBus',
  member: 'Hello',
};

export interface BusConnection {
  readonly bus: MessageBus;
  /** Never resolves. Rejects when the connection breaks, or was never one. */
  readonly broken: Promise<never>;
}

/** The name that the other side gave its error. */
export function busErrorName(error: DBusError): string {
  const name = memberOf(error, 'dbusName');
  return typeof name === 'string' ? name : error.name;
}

/** `address` as D-Bus writes it; `explain`: the error for a reason. */
export function connectBus(
  address: string,
  explain: (why: string) => Error,
  timeoutMs = CALL_TIMEOUT_MS,
): BusConnection {
  const bus = createClient({ busAddress: address, direct: true });
  const broken = new Promise<never>((_, reject) => {
    bus.connection.on('error', (error: Error) => reject(explain(error.message)));
    bus.connection.on('end', () => reject(explain('the connection ended')));
    bus.invoke(HELLO, { timeout: timeoutMs }).then(
      (name) => (bus.name = String(name)),
      (error: Error) => {
        reject(explain(error.message));
        void bus.close();
      },
    );
  });
  broken.catch(() => {});
  return { bus, broken };
}
