import { expect, it } from 'vitest';
import type { NodeFacts } from '../../../../src/machines/charts/node/object/facts.ts';
import { newNode } from '../../../../src/machines/charts/node/object/node.ts';
import { registrationMachine } from '../../../../src/machines/charts/node/registration.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const facts: NodeFacts = {
  nodeName: 'node1',
  hostname: 'node1',
  addresses: [],
  info: { architecture: 'amd64', operatingSystem: 'linux' } as NodeFacts['info'],
  port: 10250,
  labels: {},
  taints: [],
  providerID: '',
  externalCloud: false,
  providedNodeIP: '',
  enableControllerAttachDetach: true,
  declaredFeatures: [],
};
const input = { facts, node: newNode(facts, {}) };
const registered = { ...input.node, metadata: { ...input.node.metadata, uid: 'u1' } };

it('posts the Node once', () => {
  const world = runUnder(registrationMachine, input, { 'kube.create': ok(registered) });
  expect(world.asked()).toEqual(['kube.create']);
  expect(world.logged()).toEqual(['Attempting to register node', 'Successfully registered node']);
  expect(world.divergence()).toBeNull();
});

it('leaves an existing Node alone that is in line', () => {
  const answers = { 'kube.create': fail('nodes "node1" already exists', 'AlreadyExists'), 'kube.get': ok(registered) };
  const world = runUnder(registrationMachine, input, answers);
  expect(world.asked()).toEqual(['kube.create', 'kube.get']);
  expect(world.logged()).toContain('Node was previously registered');
});

it('corrects an existing Node that is not, also where it may not create one', () => {
  const strange = { ...registered, metadata: { ...registered.metadata, labels: {} } };
  const answers = { 'kube.create': fail('no', 'Forbidden'), 'kube.get': ok(strange), 'kube.patch': ok(registered) };
  const world = runUnder(registrationMachine, input, answers);
  expect(world.asked()).toEqual(['kube.create', 'kube.get', 'kube.patch']);
  expect(world.divergence()).toBeNull();
});

it('does not look for a Node that it may not create, where its gate says so', () => {
  const answers = { 'kube.create': fail('no', 'Forbidden'), 'kube.get': ok(registered) };
  const world = runUnder(registrationMachine, { ...input, getsOnExistsOnly: true }, answers);
  expect(world.asked()).toEqual(['kube.create']);
  const exists = { ...answers, 'kube.create': fail('there', 'AlreadyExists') };
  expect(runUnder(registrationMachine, { ...input, getsOnExistsOnly: true }, exists).asked()).toContain('kube.get');
});

it('goes on for as long as the API server is away', () => {
  let away = true;
  const create = () => (away ? fail('connect ECONNREFUSED', 'ECONNREFUSED') : ok(registered));
  const world = runUnder(registrationMachine, input, { 'kube.create': create });
  world.time.advanceTo(1_000_000 + 600_000);
  const tries = world.asked().length;
  // Pauses double from 100 ms to 7 s, then one attempt every 7 s, for ten minutes.
  expect(tries).toBe(91);
  away = false;
  world.time.advanceTo(1_000_000 + 607_000);
  expect(world.logged().at(-1)).toBe('Successfully registered node');
});
