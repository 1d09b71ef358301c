/** What the charts of devices, mounts and expansions share: preparing a driver, and waiting after a failure. */
import { outputOf } from '../../../kernel/xstate.ts';
import type { SecretReference } from '../../model/api/storage.ts';
import type { Driver } from '../../model/csi/messages.ts';
import type { Capabilities, Secrets } from '../../model/csi/policy.ts';
import type { KubeTarget } from '../../model/operations/kube.ts';
import { OPERATION_BACK_OFF, pauseMs } from '../../model/values/back-off.ts';

export const retryDelayMs = (tries: number): number => pauseMs(OPERATION_BACK_OFF, tries);

/** Only for a driver that is registered. */
export const askCapabilities = {
  id: 'capabilities',
  src: 'csi.capabilities',
  input: ({ context }: { context: { readonly driver: Driver } }) => ({ endpoint: context.driver.endpoint! }),
} as const;

export const capabilitiesIn = (event: unknown): { capabilities: Capabilities } =>
  outputOf<{ capabilities: Capabilities }>(event);

/** Only of a secret that there is a reference to. */
export const fetchSecret = <Context>(refOf: (context: Context) => SecretReference | null) =>
  ({
    id: 'secret',
    src: 'kube.get',
    input: ({ context }: { context: Context }): KubeTarget => ({
      client: 'kube',
      apiVersion: 'v1',
      resource: 'secrets',
      namespace: refOf(context)?.namespace ?? '',
      name: refOf(context)?.name ?? '',
    }),
  }) as const;

export const secretsIn = (event: unknown): { secrets: Secrets } => ({
  secrets: outputOf<{ data?: Secrets }>(event).data ?? {},
});

/** `fetching NodeStageSecretRef default/key failed: ` */
export const secretError = (kind: string, ref: SecretReference | null): string =>
  `fetching ${kind} ${ref?.namespace}/${ref?.name} failed: `;
