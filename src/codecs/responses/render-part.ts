import type { MediaSource, Part } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { renderAnnotation } from './annotation.ts';
import { extras } from './extras.ts';
import { renderTokens } from './logprobs.ts';

/** Renders parts in the form of Responses, for clients and upstreams. Source: docs/interfaces/responses.md "Stream"; docs/interfaces/README.md "Translation". */

/** Renders a part of model output; undefined if Responses has no such part. */
export function renderOutputPart({ content, extra }: Part): JsonObject | undefined {
  switch (content.case) {
    case 'text': {
      const { text, annotations, logprobs } = content.value;
      return {
        ...extras.members(extra),
        type: 'output_text',
        text: text.toWellFormed(),
        annotations: annotations.map(renderAnnotation).filter(each => each !== undefined),
        logprobs: renderTokens(logprobs),
      };
    }
    case 'refusal':
      return { ...extras.members(extra), type: 'refusal', refusal: content.value.text.toWellFormed() };
    case 'unknown':
      return extras.own(content.value);
    default:
      return undefined;
  }
}

/**
 * Renders reasoning; raw reasoning is shown as summaries, which every client reads (docs/interfaces/responses.md
 * "Open Responses").
 */
export function renderReasoningPart({ content, extra }: Part): JsonObject | undefined {
  if (content.case === 'unknown') return extras.own(content.value);
  if (content.case !== 'summaryText' && content.case !== 'reasoningText') return undefined;
  return { ...extras.members(extra), type: 'summary_text', text: content.value.text.toWellFormed() };
}

/** Renders a part of a message that the model did not write; undefined if Responses has no such part. */
export function renderInputPart({ content, extra }: Part): JsonObject | undefined {
  const members = extras.members(extra);
  switch (content.case) {
    case 'text':
      return { ...members, type: 'input_text', text: content.value.text.toWellFormed() };
    case 'image': {
      const { source, detail } = content.value;
      const shown = detail === '' ? {} : { detail };
      const { value } = source?.source ?? {};
      if (source?.source.case === 'fileId' && value !== undefined) {
        return { ...members, type: 'input_image', file_id: value, ...shown };
      }
      const url = findUrl(source);
      return url === undefined ? undefined : { ...members, type: 'input_image', image_url: url, ...shown };
    }
    case 'file': {
      const { source, filename, title } = content.value;
      const place = renderFileSource(source);
      const name = filename === '' ? title : filename;
      if (place === undefined) return undefined;
      return { ...members, type: 'input_file', ...place, ...(name === '' ? {} : { filename: name }) };
    }
    case 'audio': {
      const { source, format } = content.value;
      if (source?.source.case !== 'base64') return undefined;
      return { ...members, type: 'input_audio', input_audio: { data: source.source.value, format } };
    }
    case 'video': {
      const url = findUrl(content.value.source);
      return url === undefined ? undefined : { ...members, type: 'input_video', video_url: url };
    }
    case 'unknown':
      return extras.own(content.value);
    default:
      return undefined;
  }
}

/** Returns the source's URL, or its bytes as a data URL. */
function findUrl(source: MediaSource | undefined): string | undefined {
  if (source?.source.case === 'url') return source.source.value;
  if (source?.source.case === 'base64') return `data:${source.mediaType};base64,${source.source.value}`;
  return undefined;
}

function renderFileSource(source: MediaSource | undefined): JsonObject | undefined {
  switch (source?.source.case) {
    case 'url':
      return { file_url: source.source.value };
    case 'fileId':
      return { file_id: source.source.value };
    case 'base64':
      return { file_data: source.mediaType === '' ? source.source.value : (findUrl(source) ?? '') };
    case 'text':
      return { file_data: `data:text/plain;base64,${Buffer.from(source.source.value, 'utf8').toString('base64')}` };
    default:
      return undefined;
  }
}
