import { describe, expect, it } from 'vitest';
import { environmentProxy } from '../../src/actors/urls.ts';

const proxy = 'http://proxy:3128';

describe('the proxy of the environment', () => {
  it.each([
    ['https://api:6443', { HTTPS_PROXY: proxy }, proxy],
    ['https://api:6443', { https_proxy: 'proxy:3128' }, proxy],
    ['https://api:6443', { HTTPS_PROXY: proxy, https_proxy: 'http://other' }, proxy],
    ['https://api:6443', { HTTP_PROXY: proxy }, undefined],
    ['http://pods', { HTTP_PROXY: proxy }, proxy],
    ['https://api:6443', {}, undefined],
    ['https://api:6443', { HTTPS_PROXY: '' }, undefined],
  ])('of %s is by %j %s', (url, environment, expected) => {
    expect(environmentProxy(url, environment)).toBe(expected);
  });

  it.each(['https://localhost:6443', 'https://127.0.0.1:6443', 'https://127.3.2.1', 'https://[::1]:6443'])(
    'is never used for this machine: %s',
    (url) => {
      expect(environmentProxy(url, { HTTPS_PROXY: proxy })).toBeUndefined();
    },
  );

  it.each([
    ['https://api.example.com:6443', 'example.com'],
    ['https://example.com', 'other, EXAMPLE.com'],
    ['https://api.example.com', '.example.com'],
    ['https://api.example.com', '*.example.com'],
    ['https://api:6443', 'api:6443'],
    ['https://api', 'api:443'],
    ['https://10.1.2.3:6443', '10.0.0.0/8'],
    ['https://10.1.2.3:6443', '10.1.2.3'],
    ['https://10.1.2.3:6443', '10.1.2.3:6443'],
    ['https://[fd00::1]:6443', 'fd00::/8'],
    ['https://[fd00::1]:6443', '[fd00::1]:6443'],
    ['https://anything', '*'],
  ])('is not used for %s by NO_PROXY=%s', (url, noProxy) => {
    expect(environmentProxy(url, { HTTPS_PROXY: proxy, NO_PROXY: noProxy })).toBeUndefined();
  });

  it.each([
    ['https://example.com', '.example.com'],
    ['https://example.com', '*.example.com'],
    ['https://notexample.com', 'example.com'],
    ['https://api:6443', 'api:443'],
    ['https://11.1.2.3', '10.0.0.0/8'],
    ['https://10.1.2.3', '10.0.0.0/99,fd00::/8,nonsense/8'],
    ['https://10.1.2.3', 'api,10.1.2.4,'],
  ])('is used for %s in spite of NO_PROXY=%s', (url, noProxy) => {
    expect(environmentProxy(url, { HTTPS_PROXY: proxy, NO_PROXY: noProxy })).toBe(proxy);
  });
});
