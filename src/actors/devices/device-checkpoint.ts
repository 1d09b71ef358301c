/**
 * `devices.writeCheckpoint`: the kubelet's file of who has which devices. What plugins said is kept in it as they said
 * it, in the bytes of the protocol.
 */
import type { Port } from '../../kernel/operation.ts';
import { deviceStateText } from '../../machines/model/allocation/device-state-file.ts';
import type { DeviceEntry, DeviceResponse, deviceOperations } from '../../machines/model/operations/devices.ts';
import { replaceFile } from '../host/state/checkpoints.ts';
import { methodOf } from '../plugins/connection.ts';
import { type AllocateReply, DEVICE_PLUGIN } from './device-contract.ts';

export const writeDeviceCheckpoint: Port<(typeof deviceOperations)['devices.writeCheckpoint']> = async ({
  id,
  input: { path, entries, registered },
}) => {
  await replaceFile(path, deviceStateText(entries.map(withBytes), registered), id);
  return null;
};

function withBytes({ response, ...entry }: DeviceEntry) {
  const bytes = encoded(response);
  return { ...entry, bytes: [...bytes], base64: bytes.toString('base64') };
}

/** Seven bits of a length a byte, and whether there are more. */
const MORE = 0x80;

/** As the only one of an answer it stands behind the number of its field and its length. */
function encoded({ envs, mounts, devices, annotations, cdiDevices }: DeviceResponse): Buffer {
  const { responseSerialize } = methodOf<object, AllocateReply>(DEVICE_PLUGIN, 'Allocate');
  const reply = responseSerialize({
    container_responses: [
      {
        envs,
        mounts: mounts.map((mount) => ({
          container_path: mount.containerPath,
          host_path: mount.hostPath,
          read_only: mount.readOnly,
        })),
        devices: devices.map((device) => ({
          container_path: device.containerPath,
          host_path: device.hostPath,
          permissions: device.permissions,
        })),
        annotations,
        cdi_devices: cdiDevices.map((name) => ({ name })),
      },
    ],
  });
  let start = 1;
  while ((reply[start]! & MORE) !== 0) start += 1;
  return reply.subarray(start + 1);
}
