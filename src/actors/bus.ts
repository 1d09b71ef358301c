/**
 * A connection to a bus of D-Bus.
 *
 * This file sends `Hello` itself: if the bus does not answer in time, as on an overloaded machine, the library's own
 * `Hello` throws an error that cannot be caught and would end the agent.
 * Invariant: every failure of the connection rejects `broken`, and has no other effect.
 */
import { createClient, type DBusError, type Message, type MessageBus } from 'dbus-native';
import { memberOf } from '../kernel/json.ts';

/** The timeout of libdbus, GDBus and sd-bus; usual answers take milliseconds. */
export const CALL_TIMEOUT_MS = 25_000;

const HELLO: Message = {
  destination: 'org.freedesktop.DBus',
  path: '/org/freedesktop/DBus',
  interface: 'org.freedesktop.DBus',
  member: 'Hello',
};

/** The address of this machine's bus, in D-Bus notation. */
export const systemBusAddress = (): string =>
  process.env['DBUS_SYSTEM_BUS_ADDRESS'] ?? 'unix:path=/run/dbus/system_bus_socket';

export interface BusConnection {
  readonly bus: MessageBus;
  /** Never resolves. Rejects when the connection fails. */
  readonly broken: Promise<never>;
}

export function busErrorName(error: DBusError): string {
  const name = memberOf(error, 'dbusName');
  return typeof name === 'string' ? name : error.name;
}

/** `address` in D-Bus notation; `explain`: makes the error for a reason. */
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
