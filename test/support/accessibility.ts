/** The violations that axe finds on a page: in both colour schemes, on a wide screen and on a narrow one. */
import axe from 'axe-core';
import type { Page } from 'playwright-core';

const WIDTHS_PX = [1440, 360];
const HEIGHT_PX = 900;

interface Found {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly target: readonly unknown[] }[];
}

/** The violations of every level, by rule and element. The page is wide again at the end. */
export async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const found: string[] = [];
  for (const width of WIDTHS_PX) {
    await page.setViewportSize({ width, height: HEIGHT_PX });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      const { violations: all } = await page.evaluate<{ violations: readonly Found[] }>('axe.run()');
      for (const { id, help, nodes } of all) {
        found.push(...nodes.map(({ target }) => `${id} (${help}), ${width} px, ${colorScheme}: ${target.join(' ')}`));
      }
    }
  }
  await page.setViewportSize({ width: WIDTHS_PX[0]!, height: HEIGHT_PX });
  return found;
}
