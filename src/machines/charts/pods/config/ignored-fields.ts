/** Removes the fields of a pod that belong to disabled feature gates. */
import type { Container, Pod } from '../../../model/api/pod.ts';
import type { IgnoredField } from '../../../model/settings/node-settings.ts';

/**
 * A pod without such fields stays the same object. Upstream's kubelet checks its gates at each use of a field instead.
 */
export function withoutIgnored(pod: Pod, unseen: readonly IgnoredField[] = []): Pod {
  if (unseen.length === 0) return pod;
  const strip = <Each extends Container>(containers: readonly Each[], isInit: boolean): readonly Each[] =>
    containers.map((container) => unseen.reduce((kept, field) => without(kept, field, isInit), container));
  const { hostnameOverride, initContainers, containers, ephemeralContainers, ...spec } = pod.spec;
  const keepsName = hostnameOverride !== undefined && !unseen.includes('hostnameOverride');
  return {
    ...pod,
    spec: {
      ...spec,
      ...(keepsName ? { hostnameOverride } : {}),
      containers: strip(containers, false),
      ...(initContainers === undefined ? {} : { initContainers: strip(initContainers, true) }),
      ...(ephemeralContainers === undefined ? {} : { ephemeralContainers: strip(ephemeralContainers, false) }),
    },
  };
}

const RESTART_ALL = 'RestartAllContainers';

function without<Each extends Container>(container: Each, field: IgnoredField, isInit: boolean): Each {
  if (field === 'fileKeyRef') return withoutFileKeys(container);
  if (field === 'hostnameOverride') return container;
  const { restartPolicyRules: rules = [] } = container;
  if (field === 'restartAll')
    return withRules(
      container,
      rules.filter(({ action }) => action !== RESTART_ALL),
    );
  const { restartPolicy, ...rest } = container;
  const isSidecar = isInit && restartPolicy === 'Always';
  const kept = (isSidecar ? container : rest) as Each;
  return withRules(
    kept,
    rules.filter(({ action }) => action === RESTART_ALL),
  );
}

function withRules<Each extends Container>(container: Each, rules: NonNullable<Container['restartPolicyRules']>): Each {
  const { restartPolicyRules: _before, ...rest } = container;
  return (rules.length === 0 ? rest : { ...rest, restartPolicyRules: rules }) as Each;
}

/** Empties variables whose values are keys of files. */
function withoutFileKeys<Each extends Container>(container: Each): Each {
  const { env } = container;
  if (env === undefined) return container;
  return { ...container, env: env.map((each) => (each.valueFrom?.fileKeyRef ? { name: each.name, value: '' } : each)) };
}
