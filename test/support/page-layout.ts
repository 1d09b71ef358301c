/** Visible faults in the layout of a page: it is wider than the window, or texts overlap. */
import type { Page } from 'playwright-core';

/** Boxes of text are larger than its letters, so they may overlap by this much. */
const TOUCH_PX = 3;

interface Box {
  /** The text that it is a part of: a text that is cut off has a second box for its end. */
  readonly of: number;
  readonly text: string;
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** The visible texts, each as far as scrolling or hiding elements show it. */
const TEXTS = `(() => {
  const boxes = [];
  let count = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === '' || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    count++;
    for (const rect of range.getClientRects()) {
      let { left, top, right, bottom } = rect;
      for (let part = element; part !== null; part = part.parentElement) {
        const style = getComputedStyle(part);
        if (style.overflow === 'visible' || style.display === 'inline') continue;
        const room = part.getBoundingClientRect();
        [left, top] = [Math.max(left, room.left), Math.max(top, room.top)];
        [right, bottom] = [Math.min(right, room.right), Math.min(bottom, room.bottom)];
      }
      [right, bottom] = [Math.min(right, innerWidth), Math.min(bottom, innerHeight)];
      if (right - left < 2 || bottom - top < 2) continue;
      const seen = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      if (seen === null || (!seen.contains(element) && !element.contains(seen))) continue;
      boxes.push({ of: count, text: node.data.trim().slice(0, 40), left, top, right, bottom });
    }
  }
  return boxes;
})()`;

export async function layoutFaults(page: Page): Promise<readonly string[]> {
  const [wide, room] = await page.evaluate<[number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  );
  const boxes = await page.evaluate<readonly Box[]>(TEXTS);
  const overlaps = boxes.flatMap((one, at) =>
    boxes.slice(at + 1).flatMap((other) => (isOver(one, other) ? [`"${one.text}" lies over "${other.text}"`] : [])),
  );
  return [...(wide > room ? [`the page is ${wide} px wide`] : []), ...new Set(overlaps)];
}

function isOver(one: Box, other: Box): boolean {
  if (one.of === other.of) return false;
  const width = Math.min(one.right, other.right) - Math.max(one.left, other.left);
  const height = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
  return width > TOUCH_PX && height > TOUCH_PX;
}
