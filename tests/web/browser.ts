// Debian's Chromium without a window.

import { type Browser, type Page, chromium } from 'playwright-core';

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env['UCUDNN_CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'], // the tests may run as root
  });
}

// What a page must never do: throw, complain, or be stopped by its policy.
export function watch(page: Page): string[] {
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    // Answers that are errors are logged by the browser itself.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) {
      complaints.push(message.text());
    }
  });
  return complaints;
}

// The text of each row of the table with this label.
export function rows(page: Page, label: string): Promise<string[]> {
  return page
    .getByRole('region', { name: label, exact: true })
    .locator('tbody tr')
    .allInnerTexts();
}
