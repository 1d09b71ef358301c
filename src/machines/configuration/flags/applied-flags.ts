/** Applies the given flags to a configuration once its files are read: flags override every file. */
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import { asConfiguration, type KubeletConfiguration } from '../../model/configuration/fields.ts';
import { joinPath } from '../../model/values/paths.ts';
import { type FeatureSettings, mergeFeatureSettings } from '../fields/feature-gates.ts';
import { FLAGS } from './flag-table.ts';
import type { GivenFlags, KubeletFlags } from './flags.ts';

/** Upstream's one exception: `splitStream` of the log options is a flag with a default, so no file can set it. */
const FIXED_FIELDS = ['logging.options.text.splitStream', 'logging.options.json.splitStream'];

/** A flag that was not given changes only `FIXED_FIELDS`. */
export function applyFlags(configuration: KubeletConfiguration, given: GivenFlags): KubeletConfiguration {
  let result: JsonObject = configuration;
  for (const path of FIXED_FIELDS) result = setAt(result, path.split('.'), false);
  for (const { name, field } of FLAGS) {
    const value = name === 'vmodule' ? withModules(result, given[name]) : given[name];
    if (value !== undefined && field !== undefined && field !== 'featureGates') {
      result = setAt(result, field.split('.'), value);
    }
  }
  const featureGates = mergeFeatureSettings(configuration.featureGates, featureFlags(given));
  return { ...asConfiguration(result), featureGates };
}

/** `--vmodule` adds to the configured value; every other flag replaces it. */
function withModules(configuration: JsonObject, value: Json | undefined): Json | undefined {
  const { vmodule } = asConfiguration(configuration).logging;
  return Array.isArray(value) ? [...vmodule, ...value] : value;
}

function setAt(target: JsonObject, [key = '', ...rest]: readonly string[], value: Json): JsonObject {
  if (rest.length === 0) return { ...target, [key]: value };
  const inner = target[key];
  return { ...target, [key]: setAt(isObject(inner) ? inner : {}, rest, value) };
}

/** The gates that `--feature-gates` sets. */
export function featureFlags(given: GivenFlags): FeatureSettings {
  const value = given['feature-gates'];
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, on]) => [name, on === true])) : {};
}

/** Configures the self-signed certificate, if none is configured and none is requested. */
export function withServingCertificate(
  configuration: KubeletConfiguration,
  { certDir }: KubeletFlags,
): KubeletConfiguration {
  const { serverTLSBootstrap, tlsCertFile, tlsPrivateKeyFile } = configuration;
  if (serverTLSBootstrap || tlsCertFile !== '' || tlsPrivateKeyFile !== '') return configuration;
  return {
    ...configuration,
    tlsCertFile: joinPath(certDir, 'kubelet.crt'),
    tlsPrivateKeyFile: joinPath(certDir, 'kubelet.key'),
  };
}
