// Elements, built from values: texts become text nodes, never markup.

export type Child = Node | string | number | null | undefined | false;

// Attributes by name; `onclick` and its like are listeners, true is an empty
// attribute, and false or undefined leaves the attribute out.
export type Attributes = Record<
  string,
  string | number | boolean | undefined | ((event: Event) => void)
>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') {
      element.addEventListener(name.replace(/^on/, ''), value);
    } else if (value === true) {
      element.setAttribute(name, '');
    } else if (value !== false && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  append(element, children);
  return element;
}

export function append(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(
      child instanceof Node ? child : document.createTextNode(String(child)),
    );
  }
}

// Replaces what `parent` holds, unless it already says the same: a selection or
// the focus inside it then stays.
export function fill(parent: Element, ...children: Child[]): void {
  const next = document.createElement(parent.tagName);
  append(next, children);
  if (next.isEqualNode(shallow(parent, next))) return;
  parent.replaceChildren(...next.childNodes);
}

// A copy of `element`'s children under the attributes of `like`.
function shallow(element: Element, like: Element): Element {
  const copy = like.cloneNode(false) as Element;
  for (const child of element.childNodes) copy.append(child.cloneNode(true));
  return copy;
}

export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
