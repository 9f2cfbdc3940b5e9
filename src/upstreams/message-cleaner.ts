/** The texts to remove, and the maximum length of a message. */
export interface CleanerOptions {
  /** Keys and configured header values. */
  readonly secrets: readonly string[];
  readonly baseUrl: string;
}

/** Returns an upstream's own text made fit for a client; undefined if nothing readable is left. */
export type CleanMessage = (text: string) => string | undefined;

const messageMax = 1_000;
/** Cut before the patterns run: a message of megabytes is not worth their time. */
const readMax = 4_000;
/** Shorter values are not secrets, and would remove ordinary words. */
const secretMin = 6;

const credential = '[credential]';
const address = '[address]';

/**
 * Secrets that no configuration lists: other people's keys, masked keys, addresses behind the upstream. Each pattern
 * is linear in its text.
 */
const patterns: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s{1,8}[\w.~+/=*…-]{6,}/gi, `$1 ${credential}`],
  [/\b(?:sk|pk|rk|gsk|xai|hf|nvapi)[-_][\w*….-]{8,}/gi, credential],
  [/\bAIza[\w*…-]{10,}/g, credential],
  [/\b(?:https?|wss?|unix|grpc):\/\/[^\s"'<>)\]}]+/gi, address],
  [/\[[0-9a-f:.]{2,45}\]:\d{1,5}/gi, address],
];

/** A run of characters that a host can have, and its port. */
const hostLike = /[a-z0-9][a-z0-9.-]*(?::\d{1,5}\b)?/gi;
const ipv4 = /^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?$/;
const privateName = /^localhost(?::\d+)?$|\.(?:internal|local|lan|svc|cluster|intranet|corp)(?::\d+)?$/i;
const nameWithPort = /^[a-z].*\..*:\d+$/i;

/**
 * Returns a cleaner: it removes credentials and addresses, replaces control characters and runs of blanks with one blank, returns no
 * message for HTML, and cuts at 1,000 characters. Source: docs/errors.md "Errors of providers".
 */
export function messageCleaner(options: CleanerOptions): CleanMessage {
  const { host, hostname } = new URL(options.baseUrl);
  const own = [host, hostname];
  // The longest first: one secret may be part of another.
  const secrets = options.secrets
    .filter(secret => secret.length >= secretMin)
    .toSorted((one, other) => other.length - one.length);
  return text => {
    let clean = text.slice(0, readMax);
    if (/<(?:!doctype|html|head|body)\b/i.test(clean)) return undefined;
    for (const secret of secrets) clean = clean.replaceAll(secret, credential);
    for (const [pattern, replacement] of patterns) clean = clean.replaceAll(pattern, replacement);
    clean = clean.replaceAll(hostLike, token => withoutAddress(token, own));
    clean = clean
      .replaceAll(/[\p{Cc}\p{Cs}\s]+/gu, ' ')
      .trim()
      .slice(0, messageMax)
      .toWellFormed();
    return clean === '' ? undefined : clean;
  };
}

function withoutAddress(token: string, own: readonly string[]): string {
  const name = token.replace(/[.-]+$/, '');
  const isAddress =
    own.includes(name.toLowerCase()) || ipv4.test(name) || privateName.test(name) || nameWithPort.test(name);
  return isAddress ? address + token.slice(name.length) : token;
}

/** Returns an upstream's name of a field, if it looks like one: "messages.0.content", "tools[1].name". */
export function cleanParam(param: string): string | undefined {
  return /^[\w.[\]$-]{1,200}$/.test(param) ? param : undefined;
}
