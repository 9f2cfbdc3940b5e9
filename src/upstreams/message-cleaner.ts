/** The members to remove from messages. */
export interface CleanerOptions {
  /** The keys, and the values of configured headers. */
  readonly secrets: readonly string[];
  readonly baseUrl: string;
}

/** Returns a text of an upstream that is cleaned for clients; undefined if nothing readable is left. */
export type CleanMessage = (text: string) => string | undefined;

const messageMax = 1_000;
/** Messages are cut to this length before the patterns run, because a message of megabytes would take too much time. */
const readMax = 4_000;
/** Values that are shorter than this are not treated as secrets, because that would remove ordinary words. */
const secretMin = 6;

const credential = '[credential]';
const address = '[address]';

/**
 * Secrets that are not in the configuration: other people's keys, masked keys, addresses behind the upstream. Each pattern takes linear time.
 */
const patterns: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s{1,8}[\w.~+/=*…-]{6,}/gi, `$1 ${credential}`],
  [/\b(?:sk|pk|rk|gsk|xai|hf|nvapi)[-_][\w*….-]{8,}/gi, credential],
  [/\bAIza[\w*…-]{10,}/g, credential],
  [/\b(?:https?|wss?|unix|grpc):\/\/[^\s"'<>)\]}]+/gi, address],
  [/\[[0-9a-f:.]{2,45}\]:\d{1,5}/gi, address],
];

/** Characters that can be a host name, and its port. */
const hostLike = /[a-z0-9][a-z0-9.-]*(?::\d{1,5}\b)?/gi;
const ipv4 = /^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?$/;
const privateName = /^localhost(?::\d+)?$|\.(?:internal|local|lan|svc|cluster|intranet|corp)(?::\d+)?$/i;
const nameWithPort = /^[a-z].*\..*:\d+$/i;

/**
 * Returns a function that removes credentials and addresses from a message, replaces control characters and runs of spaces by one space, returns undefined for HTML, and cuts at 1,000 characters. Source: docs/errors.md "Errors of providers".
 */
export function messageCleaner(options: CleanerOptions): CleanMessage {
  const { host, hostname } = new URL(options.baseUrl);
  const own = [host, hostname];
  // The longest first, because one secret may be part of another.
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
