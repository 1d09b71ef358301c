/** The files of the resource managers, compared with files of Go kubelets. */
import { describe, expect, it } from 'vitest';
import { cpuStateProblem, cpuStateText } from '../../../../src/machines/model/allocation/cpu-state-file.ts';
import {
  memoryMismatch,
  memoryState,
  memoryStateProblem,
  memoryStateText,
} from '../../../../src/machines/model/allocation/memory-state-file.ts';

const CPUS = {
  cpus: [0, 1, 2, 3].map((id) => ({ id, core: id, socket: 0, numaNode: 0 })),
  reserved: [0],
  wholeCores: false,
  isReservationStrict: false,
};
const ENTRIES = { pod: { container1: '4-6', container2: '1-3' } };

describe('cpu_manager_state', () => {
  it.each([
    [{ policy: 'none', shared: '', entries: {} }, 1353318690],
    [{ policy: 'none', shared: '4-6', entries: {} }, 354655845],
    [{ policy: 'none', shared: '1-3', entries: ENTRIES }, 3610638499],
  ])('%j has the checksum of a Go kubelet', (state, checksum) => {
    expect(JSON.parse(cpuStateText(state)).checksum).toBe(checksum);
    expect(cpuStateProblem(cpuStateText(state), 'none', undefined).error).toBe('');
  });

  it('is written as a Go kubelet writes it', () => {
    expect(cpuStateText({ policy: 'none', shared: '', entries: {} })).toBe(
      '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
    );
    const entries = { b: { y: '2', x: '1' }, a: { z: '3' } };
    expect(cpuStateText({ policy: 'static', shared: '0', entries })).toMatch(
      /^{"policyName":"static","defaultCpuSet":"0","entries":{"a":{"z":"3"},"b":{"x":"1","y":"2"}},"checksum":\d+}$/,
    );
  });

  const written = (shared: string, entries = {}) => cpuStateText({ policy: 'static', shared, entries });
  it.each([
    ['', 'unexpected end of JSON input'],
    ['[]', 'json: cannot unmarshal array into Go value of type state.CPUManagerCheckpointV1'],
    ['7', 'json: cannot unmarshal number into Go value of type state.CPUManagerCheckpointV1'],
    ['null', 'configured policy "static" differs from state checkpoint policy ""'],
    ['{"policyName":', 'unexpected end of JSON input'],
    ['garbage', "invalid character 'g' looking for beginning of value"],
    ['{"policyName":"static","defaultCpuSet":"0-3","checksum":1}', 'checkpoint is corrupted'],
    ['{"policyName":"static","entries":{"u":3},"checksum":0}', 'checkpoint is corrupted'],
    ['{"policyName":"none","checksum":0}', 'configured policy "static" differs from state checkpoint policy "none"'],
    [written('0-x'), 'could not parse default cpu set "0-x": strconv.Atoi: parsing "x": invalid syntax'],
    [
      written('0,3', { u: { c: '1,' } }),
      'could not parse cpuset "1," for container "c" in pod "u": strconv.Atoi: parsing "": invalid syntax',
    ],
    [written('0-1'), 'current set of available CPUs "0-3" doesn\'t match with CPUs in state "0-1"'],
    [written('1-3'), 'not all reserved cpus: "0" are present in defaultCpuSet: "1-3"'],
    [written('0,3', { u: { c: '1-2' } }), ''],
    [written(''), ''],
  ])('%s: %s', (text, error) => {
    expect(cpuStateProblem(text, 'static', CPUS).error).toBe(error);
  });

  it('with a strict reservation has no reserved CPU among the shared ones', () => {
    const strict = { ...CPUS, isReservationStrict: true };
    expect(cpuStateProblem(written('1-3'), 'static', strict).error).toBe('');
    expect(cpuStateProblem(written('0-3'), 'static', strict).error).toBe(
      'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-3"',
    );
  });
});

describe('memory_manager_state', () => {
  const MANAGER = { nodes: [{ id: 0, memory: { memory: { total: '2048', systemReserved: '512' } } }] };
  const entries = { pod: { container1: [{ numaAffinity: [0], type: 'memory', size: '512' }] } };
  /** From the tests of the Go kubelet. */
  const RECORDED =
    '{"policyName":"static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":2048,' +
    '"systemReserved":512,"allocatable":1536,"reserved":512,"free":1024}},"cells":[]}},"entries":{"pod":' +
    '{"container1":[{"numaAffinity":[0],"type":"memory","size":512}]}},"checksum":4215593881}';

  it('of a Go kubelet is understood, and one that was changed is not', () => {
    expect(memoryStateProblem(RECORDED, 'static')).toBe('');
    expect(memoryStateProblem(RECORDED.replace('1024', '1023'), 'static')).toBe('checkpoint is corrupted');
    expect(memoryStateProblem(RECORDED, 'Static')).toBe(
      '[memorymanager] configured policy "Static" differs from state checkpoint policy "static"',
    );
    expect(memoryStateProblem('{"policyName":"Static","machineState":{"0":{}}}', 'Static')).toBe(
      'checkpoint is corrupted',
    );
  });

  it.each([
    ['[]', 'json: cannot unmarshal array into Go value of type state.MemoryManagerCheckpointV1'],
    ['null', '[memorymanager] configured policy "Static" differs from state checkpoint policy ""'],
    ['{', 'unexpected end of JSON input'],
  ])("that is damaged is told in Go's words: %s", (text, error) => {
    expect(memoryStateProblem(text, 'Static')).toBe(error);
  });

  it('is written as a Go kubelet writes it', () => {
    expect(memoryStateText(memoryState('None', undefined, {}))).toBe(
      '{"policyName":"None","machineState":{},"checksum":4236770233}',
    );
    const text = memoryStateText(memoryState('Static', MANAGER, entries));
    expect(text).toMatch(
      /^{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":2048,/,
    );
    expect(memoryStateProblem(text, 'Static')).toBe('');
    expect(JSON.parse(text).machineState[0]).toEqual({
      numberOfAssignments: 1,
      memoryMap: { memory: { total: 2048, systemReserved: 512, allocatable: 1536, reserved: 512, free: 1024 } },
      cells: [0],
    });
  });

  it('of a machine with other memory or another reservation does not fit', () => {
    const text = memoryStateText(memoryState('Static', MANAGER, entries));
    const other = { nodes: [{ id: 0, memory: { memory: { total: '4096', systemReserved: '512' } } }] };
    expect(memoryMismatch(text, MANAGER)).toBe('');
    expect(memoryMismatch(text, other)).toBe(
      '[memorymanager] the expected machine state is different from the real one',
    );
  });
});
