/**
 * Creates the elements of the page. Text stays text, never markup, so the content of a log cannot become part of the
 * page.
 */

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** The nearest element that matches, from the target of an event up. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as that of `Element.closest`
export const closest = <Found extends Element>({ target }: Event, selector: string): Found | null =>
  target instanceof Element ? target.closest<Found>(selector) : null;

/** An element with attributes (`true` sets an empty one, `undefined` and `false` none) and children. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

export function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    const text = value === true ? '' : String(value);
    if (value === undefined || value === false) element.removeAttribute(name);
    // An attribute that has the value already is not set: the browser would compute the style again.
    else if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Replaces the text of an element if it differs. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets the children of an element, in order; children that are in place already are not touched. */
export function arrange(parent: Element, children: readonly Element[]): void {
  const wanted = new Set(children);
  const others = Array.from(parent.children).filter((child) => !wanted.has(child));
  for (const child of others) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

/** An element of the page itself. */
export function byId<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`index.html has no ${kind.name} #${id}`);
  return found;
}

/** Acts at the first call, and then once after each pause with further calls. */
export function paced(act: () => void, pauseMs: number): () => void {
  let isPausing = false;
  let isDue = false;
  const call = (): void => {
    isDue = isPausing;
    if (isPausing) return;
    isPausing = true;
    act();
    setTimeout(() => {
      isPausing = false;
      if (isDue) call();
    }, pauseMs);
  };
  return call;
}
