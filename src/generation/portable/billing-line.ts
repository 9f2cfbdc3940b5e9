import { type Item, Protocol, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';

/**
 * Matches the line that Claude Code puts before the system text and changes with every request, so that no provider but Anthropic finds the beginning of the
 * prompt in its cache. Source: github.com/anthropics/claude-code/issues/68900, 2026-11-28.
 */
const billingLine = /^x-anthropic-billing-header:[^\n]*\n?/;

/** Returns the system text without that line. */
export function cutBillingLine(text: string): string {
  return text.replace(billingLine, '');
}

/** Returns the items of a request without that line; the same list if there is none. For providers of other protocols than Messages. */
export function withoutBillingLine({ source, items }: GenerateRequest): readonly Item[] {
  const [first] = items;
  if (source?.protocol !== Protocol.MESSAGES || first?.content.case !== 'message') return items;
  const message = first.content.value;
  const [part] = message.parts;
  if (message.role !== Role.SYSTEM || part?.content.case !== 'text') return items;
  const { text } = part.content.value;
  const rest = cutBillingLine(text);
  if (rest === text) return items;
  const kept = { ...part, content: { ...part.content, value: { ...part.content.value, text: rest } } };
  const parts = [...(rest === '' ? [] : [kept]), ...message.parts.slice(1)];
  const others = items.slice(1);
  return parts.length === 0
    ? others
    : [{ ...first, content: { case: 'message', value: { ...message, parts } } }, ...others];
}
