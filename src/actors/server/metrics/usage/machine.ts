/** What `/metrics/cadvisor` says of the machine itself: from the facts that starting found out. */
import { type MachineInfo, physicalCoresOf, socketsOf } from '../../../../machines/model/operations/host.ts';
import type { Family } from '../family.ts';

/** `null`: it is not known yet. */
export function machineFamilies(
  machine: MachineInfo | null,
  levels: Readonly<Record<'books' | 'drawers', number>>,
): Family[] {
  const { machineId = '', systemUuid = '', bootId = '' } = machine ?? {};
  const labels = { boot_id: bootId, machine_id: machineId, system_uuid: systemUuid };
  const gauge = (
    name: string,
    help: string,
    value: number | null,
    own: Family['samples'][number]['labels'] = labels,
  ) => ({
    name,
    help,
    type: 'gauge' as const,
    samples: value === null ? [] : [{ labels: own, value }],
  });
  return [
    gauge('machine_cpu_books', 'Number of CPU books.', machine && levels.books),
    gauge('machine_cpu_drawers', 'Number of CPU drawers.', machine && levels.drawers),
    gauge('machine_cpu_cores', 'Number of logical CPU cores.', machine && machine.cores),
    gauge('machine_cpu_physical_cores', 'Number of physical CPU cores.', machine && physicalCoresOf(machine.topology)),
    gauge('machine_cpu_sockets', 'Number of CPU sockets.', machine && socketsOf(machine.topology)),
    gauge('machine_memory_bytes', 'Amount of memory installed on the machine.', machine && Number(machine.memoryBytes)),
    gauge(
      'machine_swap_bytes',
      'Amount of swap memory available on the machine.',
      machine && Number(machine.swapBytes),
    ),
    gauge(
      'machine_scrape_error',
      '1 if there was an error while getting machine metrics, 0 otherwise.',
      machine ? 0 : 1,
      {},
    ),
    gauge(
      'cadvisor_version_info',
      "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & " +
        'cadvisor revision.',
      machine && 1,
      {
        cadvisorRevision: '',
        cadvisorVersion: '',
        dockerVersion: '',
        kernelVersion: machine?.kernelVersion ?? '',
        osVersion: machine?.osImage ?? '',
      },
    ),
  ];
}
