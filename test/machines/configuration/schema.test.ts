/** The schema for editors is the table by which the kubelet decodes. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { configurationSchema, SCHEMA_FILE, schemaText } from '../../../scripts/generate-configuration-schema.ts';

it('is up to date; otherwise run scripts/generate-configuration-schema.ts', () => {
  expect(JSON.parse(readFileSync(SCHEMA_FILE, 'utf8'))).toEqual(JSON.parse(schemaText()));
});

it('knows types, choices, defaults and sentences', () => {
  expect(configurationSchema()).toMatchObject({
    additionalProperties: false,
    required: ['apiVersion', 'kind'],
    properties: {
      maxPods: { type: 'integer', maximum: 2 ** 31 - 1, default: 110, description: 'Pods that may run here' },
      hairpinMode: { enum: ['promiscuous-bridge', 'hairpin-veth', 'none'] },
      authorization: { properties: { mode: { enum: ['AlwaysAllow', 'Webhook'], default: 'Webhook' } } },
      registerWithTaints: { items: { properties: { effect: { type: 'string' } } } },
    },
  });
});
