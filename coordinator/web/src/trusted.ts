// The page's policy forbids markup made from strings. ECharts empties elements
// by innerHTML = ''; nothing else may pass.

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createHTML: (text: string) => string },
  ): unknown;
}

const { trustedTypes } = window as { trustedTypes?: TrustedTypes };

trustedTypes?.createPolicy('default', {
  createHTML: (text) => {
    if (text !== '') throw new TypeError('the page makes no markup from strings');
    return text;
  },
});

export {};
