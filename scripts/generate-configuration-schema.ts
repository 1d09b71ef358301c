/**
 * Writes `schema/kubelet-configuration.schema.json`, with which an editor completes and checks a configuration file.
 *
 * Names, types and defaults are from the table that the kubelet's decoder uses, descriptions from `--help`. Run it
 * after a change of the table, and `npm run format` after it; a test compares the file with the table.
 */
import { writeFileSync } from 'node:fs';
import type { Json } from '../src/kernel/json.ts';
import { FLAGS } from '../src/machines/configuration/flags/flag-table.ts';
import type { Field, FieldType, StructType } from '../src/machines/model/configuration/field-types.ts';
import { API_VERSION, KIND, kubeletConfigurationType } from '../src/machines/model/configuration/fields.ts';

type Schema = Record<string, Json>;

export const SCHEMA_FILE = new URL('../schema/kubelet-configuration.schema.json', import.meta.url);

const DURATION = String.raw`^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`;
const QUANTITY = String.raw`^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$`;

const CHOICES: Readonly<Record<string, readonly string[]>> = {
  'authorization.mode': ['AlwaysAllow', 'Webhook'],
  configMapAndSecretChangeDetectionStrategy: ['Get', 'Cache', 'Watch'],
  cgroupDriver: ['cgroupfs', 'systemd'],
  cpuManagerPolicy: ['none', 'static'],
  hairpinMode: ['promiscuous-bridge', 'hairpin-veth', 'none'],
  imagePullCredentialsVerificationPolicy: [
    'NeverVerify',
    'NeverVerifyPreloadedImages',
    'NeverVerifyAllowlistedImages',
    'AlwaysVerify',
  ],
  'logging.format': ['text', 'json'],
  memoryManagerPolicy: ['None', 'Static'],
  memoryReservationPolicy: ['None', 'TieredReservation'],
  'memorySwap.swapBehavior': ['', 'NoSwap', 'LimitedSwap'],
  topologyManagerPolicy: ['none', 'best-effort', 'restricted', 'single-numa-node'],
  topologyManagerScope: ['container', 'pod'],
};

const SENTENCES = new Map(FLAGS.map(({ field, usage }) => [field, usage]));

export function configurationSchema(): Schema {
  const body = structSchema(kubeletConfigurationType, '');
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'KubeletConfiguration v1beta1 (Kubernetes 1.36)',
    ...body,
    properties: { apiVersion: { const: API_VERSION }, kind: { const: KIND }, ...Object(body['properties']) },
    required: ['apiVersion', 'kind'],
  };
}

function structSchema(type: StructType, prefix: string): Schema {
  const properties = type.fields.map((field) => [field.name, fieldSchema(field, `${prefix}${field.name}`)] as const);
  return { type: 'object', additionalProperties: false, properties: Object.fromEntries(properties) };
}

function fieldSchema(field: Field, path: string): Schema {
  const sentence = SENTENCES.get(path);
  const choices = CHOICES[path];
  return {
    ...typeSchema(field.type, path),
    ...(choices === undefined ? {} : { enum: choices }),
    ...(sentence === undefined ? {} : { description: sentence }),
    ...(field.default === undefined ? {} : { default: field.default }),
  };
}

function typeSchema(type: FieldType, path: string): Schema {
  switch (type.kind) {
    case 'bool':
      return { type: 'boolean' };
    case 'integer':
      return { type: 'integer', minimum: Number(type.least), maximum: Number(type.most) };
    case 'float':
      return { type: 'number' };
    case 'duration':
      return { type: 'string', pattern: DURATION };
    case 'durationOrNumber':
      return { anyOf: [{ type: 'string', pattern: DURATION }, { type: 'integer' }] };
    case 'quantity':
      return { anyOf: [{ type: 'string', pattern: QUANTITY }, { type: 'number' }] };
    case 'list':
      return { type: 'array', items: typeSchema(type.of, `${path}[]`) };
    case 'map':
      return { type: 'object', additionalProperties: typeSchema(type.of, `${path}[]`) };
    case 'struct':
      return structSchema(type, `${path}.`);
    default:
      return { type: 'string' };
  }
}

export function schemaText(): string {
  return `${JSON.stringify(configurationSchema(), null, 2)}\n`;
}

if (import.meta.main) writeFileSync(SCHEMA_FILE, schemaText());
