import { expect, it } from 'vitest';
import { redirect } from '../../../../src/actors/server/http/endpoint.ts';
import { targetOf } from '../../../../src/actors/server/http/requests.ts';

it('redirects to a cleaned path, escaped once more, as the kubelet does', () => {
  const locations = [
    ['//pods', '/pods'],
    ['/logs/../etc/passwd', '/etc/passwd'],
    ['//logs/%2e%2e/etc?query=a%20b', '/logs/%252e%252e/etc?query=a%20b'],
    ['/logs/../a%2f', '/a%252f'],
    ["/./it's(!)", '/it%27s%28%21%29'],
    ['/pods//?', '/pods/'],
  ];
  for (const [url, location] of locations) expect(targetOf(url!), url).toMatchObject({ kind: 'redirect', location });
});

it('is not cleaned for CONNECT, whose target may be only an authority', () => {
  const target = (url: string) => targetOf(url, new Set(['/logs']), true);
  for (const url of ['//pods', '/a/../pods', '/pods/.'])
    expect(target(url)).toMatchObject({ kind: 'resource', path: url });
  expect(target('/logs')).toMatchObject({ kind: 'redirect', location: '/logs/' });
  expect(target('x:1')).toMatchObject({ kind: 'resource', path: '/' });
  expect(target('x:1/pods')).toMatchObject({ kind: 'resource', path: '/pods' });
});

it('has no body, and for HEAD no length, but for GET', () => {
  expect(redirect('GET', '/a').body).toBe('<a href="/a">Temporary Redirect</a>.\n\n');
  expect(redirect('POST', '/a')).toEqual({ status: 307, headers: { location: '/a' }, body: '' });
  expect(redirect('HEAD', '/a')).toMatchObject({ headers: { 'content-type': 'text/html; charset=utf-8' } });
  expect(redirect('HEAD', '/a').body).toBeTypeOf('object');
});
