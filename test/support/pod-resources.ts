/** An agent that reads the node's socket of pod resources, with the contract that all such agents have. */
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const CONTRACTS = new URL('../../proto/podresources/', import.meta.url).pathname;

/** Calls `PodResourcesLister` at this socket once; fields are in camel case, 64-bit integers are objects. */
export async function askPodResources(
  socket: string,
  method: string,
  request: object = {},
  version: 'v1' | 'v1alpha1' = 'v1',
): Promise<unknown> {
  const contract = loadSync(`${CONTRACTS}${version}/api.proto`);
  const service = contract[`${version}.PodResourcesLister`] as grpc.ServiceDefinition;
  const Lister = grpc.makeGenericClientConstructor(service, 'PodResourcesLister');
  const lister = new Lister(`unix://${socket}`, grpc.credentials.createInsecure());
  const asked = Promise.withResolvers<unknown>();
  const call = lister[method] as (...args: unknown[]) => void;
  call.call(lister, request, (error: Error | null, value: unknown) =>
    error ? asked.reject(error) : asked.resolve(value),
  );
  return asked.promise.finally(() => lister.close());
}
