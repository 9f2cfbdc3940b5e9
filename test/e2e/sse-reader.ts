/** Returns the data of every complete message in a stream's text; comments and an unfinished last message are omitted. */
export function sseMessages(text: string): string[] {
  return text
    .split('\n\n')
    .slice(0, -1)
    .map(frame => frame.split('\n').filter(line => line.startsWith('data: ')))
    .filter(lines => lines.length > 0)
    .map(lines => lines.map(line => line.slice('data: '.length)).join('\n'));
}
