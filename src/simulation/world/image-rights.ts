/** Registries with private repositories, the credentials of this node, and the records of pulls. */
import type { SecretHandle } from '../../kernel/journal/secrets.ts';
import type { InputOf, OutputOf } from '../../kernel/xstate.ts';
import type { PullCredential, PulledCredentials } from '../../machines/model/operations/image.ts';
import type { Operations } from '../../machines/model/operations/index.ts';
import type { ConfigObject } from '../../machines/model/operations/volume.ts';

/** A handle with the text itself as its name, because this world has no secrets. */
const handle = (text: string): SecretHandle => ({ $secret: text, len: text.length });

/** A pull secret with the single login `login`. */
export const pullSecret = (name: string, login: string, namespace = 'default'): ConfigObject => ({
  kind: 'Secret',
  namespace,
  name,
  type: 'kubernetes.io/dockerconfigjson',
  version: login,
  data: { '.dockerconfigjson': { text: handle(login) } },
});

export class ImageRights {
  /** By image, the login that its registry requires; other images need none. */
  readonly locked = new Map<string, string>();
  readonly nodeLogins: string[] = [];
  /** By service account, the login that a plugin returns for it; it depends on the pod. */
  readonly accountLogins = new Map<string, (uid: string) => string>();
  readonly intents = new Set<string>();
  /** By image id and repository. */
  readonly records = new Map<string, Record<string, PulledCredentials>>();

  /** The registry's error for this login; `null` if the login is accepted. */
  refusal(image: string, auth: SecretHandle | null): string | null {
    const login = this.locked.get(image);
    return login === undefined || login === auth?.$secret ? null : `${auth?.$secret ?? 'nobody'} may not pull ${image}`;
  }

  readonly handlers = {
    'images.credentials': ({ secrets, pod }: InputOf<Operations['images.credentials']>) => {
      const podSecrets = secrets.map(({ namespace, name, version }) =>
        credential(version, { kind: 'Secret', namespace, name, uid: '' }),
      );
      const login = this.accountLogins.get(pod?.serviceAccount ?? '')?.(pod?.uid ?? '');
      const source = {
        kind: 'ServiceAccount',
        namespace: 'default',
        name: pod?.serviceAccount ?? '',
        uid: 'sa',
      } as const;
      const ofAccount = login === undefined ? [] : [credential(login, source)];
      return { credentials: [...podSecrets, ...this.nodeLogins.map((each) => credential(each, null)), ...ofAccount] };
    },
    'images.pullRecord': ({ image, imageRef }: InputOf<Operations['images.pullRecord']>) => ({
      intended: this.intents.has(image),
      record: this.records.get(imageRef) ?? null,
    }),
    'images.recordIntent': ({ image }: InputOf<Operations['images.recordIntent']>) => {
      this.intents.add(image);
      return null;
    },
    'images.forgetIntent': ({ image }: InputOf<Operations['images.forgetIntent']>) => {
      this.intents.delete(image);
      return null;
    },
    'images.recordPulled': (input: InputOf<Operations['images.recordPulled']>) => {
      const { image, imageRef, repository, credentials } = input;
      const record = { ...this.records.get(imageRef) };
      const { secrets: before = [], accounts = [] } = record[repository] ?? {};
      if (credentials) {
        const secrets = [...before, ...credentials.secrets];
        record[repository] = { ...credentials, secrets, accounts: [...accounts, ...(credentials.accounts ?? [])] };
      }
      this.records.set(imageRef, record);
      this.intents.delete(image);
      return null;
    },
    'images.listIntents': () => ({ images: [...this.intents] }),
    'images.pruneRecords': ({ keep }: InputOf<Operations['images.pruneRecords']>) => {
      for (const imageRef of this.records.keys()) if (!keep.includes(imageRef)) this.records.delete(imageRef);
      return null;
    },
    'images.registerProviders': () => ({ usesAccounts: false }),
  } satisfies { [N in keyof Operations & `images.${string}`]: (input: never) => OutputOf<Operations[N]> };
}

const credential = (login: string, source: PullCredential['source']): PullCredential => ({
  auth: handle(login),
  hash: handle(`hash of ${login}`),
  source,
});
