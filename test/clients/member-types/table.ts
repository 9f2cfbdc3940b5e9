/**
 * Says of every member of the official clients' types what it does to a bill: nothing, or what it is priced by, or that the gateway does not send it without a price. What costs
 * extra is in src/generation/priced-features.ts and what no policy allows in src/upstreams/withheld-features.ts; the lists here are what is left. A member whose
 * values select a price has its values listed too; a value of another member changes nothing but tokens, which providers report.
 */

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/** Members that a price covers, by what they are priced by. */
export const priced: Readonly<Record<string, ReadonlySet<string>>> = {
  input: words(`
    messages system instructions input contents systemInstruction tools functions prompt suffix variables prompt_tokens input_tokens promptTokenCount
    promptTokensDetails prompt_tokens_details input_tokens_details toolUsePromptTokenCount toolUsePromptTokensDetails text_tokens total_tokens
    totalTokenCount image_url file_data file_url file_id file_ids inlineData fileData detail mediaResolution estimated_tokens billableCharacterCount
    tokenCount initialPromptTokenCount context_management compaction thinking_tokens
  `),
  output: words(`
    max_tokens max_completion_tokens max_output_tokens maxOutputTokens prediction completion_tokens completion_tokens_details output_tokens
    output_tokens_details candidatesTokenCount candidatesTokensDetails thoughtsTokenCount responseTokenCount responseTokensDetails reasoning_tokens
    accepted_prediction_tokens rejected_prediction_tokens reasoning reasoning_effort thinking thinkingConfig budget_tokens thinkingBudget thinkingLevel
    effort n candidateCount task_budget
  `),
  'a cache': words(`
    cache_control prompt_cache_breakpoint prompt_cache_key prompt_cache_options prompt_cache_retention ttl cached_tokens cache_write_tokens
    cachedContentTokenCount cacheTokensDetails cache_creation cache_creation_input_tokens cache_read_input_tokens ephemeral_5m_input_tokens
    ephemeral_1h_input_tokens caching
  `),
  'the tier': words(`
    service_tier serviceTier trafficType
  `),
  'the call of a tool': words(`
    web_search_options search_context_size googleSearch googleSearchRetrieval googleMaps enterpriseWebSearch exaAiSearch parallelAiSearch codeExecution
    fileSearch max_tool_calls max_uses server_tool_use web_search_requests
  `),
  'the image': words(`
    size quality input_fidelity complexity image_tokens output_format
  `),
  'the model of an entry': words(`
    iterations
  `),
};

/** Members that are not sent, unless their value costs nothing: they would cost, and no price covers them. */
export const refused: ReadonlySet<string> = words(`
  audio modalities voice speed inference_geo container memory_limit best_of partial_images frame_count svg svg_usage billing_policy bill_to
  fallback_credit_token user_profile_id workspace_id fallbacks thread responseModalities speechConfig imageConfig routingConfig modelSelectionConfig
  cachedContent modelArmorConfig retrieval audio_tokens
`);

/** Members that can't change a bill, by client. Text and settings of a request among them are counted as input with the member that holds them. */
export const free: Readonly<Record<string, ReadonlySet<string>>> = {
  openai: words(`
    access_programs acknowledged_safety_checks action actions allowed_callers allowed_domains allowed_tools always annotation annotation_index annotations
    approval_request_id approve approximate arguments async attributes authorization b64_json background button bytes call_id caller caller_id cancel
    categories category_applied_input_types category_scores choices city code command command_index commands compact_threshold comparison_response_id
    connector_id container_id content content_index context context_compression conversation country created created_at created_by custom cyber data
    defer_loading definition delta description diff dimensions display_height display_width domain domain_secrets echo embedding encoding_format
    encrypted_content end_index env environment error execution exit_code expires_at external_web_access filename filters fingerprint finish_reason
    flagged format frame_duration_ms frequency_penalty function function_call generate_summary getReader grammar headers id image include
    include_obfuscation include_usage index input_audio input_image_mask input_schema item item_id json_schema keys locked logit_bias logprob logprobs
    logs markup mask max_output_length media_type message metadata mode model moderation moderation_details moderation_stage name namespace network_policy
    never obfuscation object operation outcome output output_compression output_index output_schema outputs parallel_tool_calls param parameters part
    partial_image_b64 partial_image_index path pattern pending_safety_checks phase pipeThrough pipeTo policy presence_penalty previous_response_id prewarm
    queries query read_only reason refusal region require_approval response response_format result results revised_prompt role safety_identifier schema
    score scroll_x scroll_y search_content_types seed sequence_number server_description server_label server_url skill_id skills source sources
    start_index status stderr stdout stop store stream stream_options strict style summary summary_index syntax system_fingerprint tee temperature text
    text_offset timeout_ms timezone title toString token token_logprobs tokens tool_call_id tool_calls tool_choice tool_names top_logprobs top_p
    transcript truncation tunnel_id type url url_citation usage user user_location value values verbosity version working_directory x y
  `),
  anthropic: words(`
    active allowed_callers allowed_domains allowed_tools applied_edits authorization_token betas block_binding blocked_domains cache_miss_reason
    cache_missed_input_tokens caller category citation citations cited_text city clear_at clear_at_least clear_tool_inputs cleared_input_tokens
    cleared_thinking_turns cleared_tool_uses client_tool_results close_tab configs content content_block context country cursor_position data
    default_config defer_loading definition delta description diagnostics disable_parallel_tool_use display display_height_px display_number
    display_width_px document_index document_title double_click download_id eager_input_streaming edits enable_zoom enabled encrypted_content
    encrypted_index encrypted_stdout end_block_index end_char_index end_page_number error error_code error_message exclude_tools expires_at explanation
    fallback_credit fallback_has_prefill_claim file_type file_upload find form_input format from get_page_text hold_key hover id index input_examples
    input_schema input_transformations is_error is_file_update javascript_exec keep key left_click left_click_drag left_mouse_down left_mouse_up lines
    list_tabs max_characters max_content_tokens mcp_server_name mcp_servers media_type message metadata middle_click mode model mouse_move name navigate
    new_lines new_start new_tab num_lines old_lines old_start output_config oversized_image page_age partial_json path pause_after_compaction
    prefix_mismatch_behavior previous_message_id properties read_console read_network read_page reason recommended_model region remaining remove_to_redeem
    required response_inclusion retrieved_at return_code right_click role schema screenshot scroll scroll_to search_result_index server_name
    server_tool_results signature size_bytes skill_id skills source start_block_index start_char_index start_line start_page_number state_changes status
    stderr stdout stop_details stop_reason stop_sequence stop_sequences stream strict switch_tab tab_id tabs text timezone title to token tool
    tool_changes tool_choice tool_configuration tool_id tool_name tool_references tool_use_id toolset_name total total_lines transformations trigger
    triple_click type url url_sources usage use_cache user_id user_input user_location value version wait web_fetch_requests zoom
  `),
  google: words(`
    abortSignal accessToken adaptationPhrases allowedFunctionNames alpha anyOf apiAuth apiKey apiKeyConfig apiKeySecret apiKeySecretVersion apiKeyString
    apiSpec args aspectRatio audioTimestamp audioTrackExtraction audioTranscription audioTranscriptionConfig authConfig authType authorAttribution
    autoMode autoTruncate automaticContinuation automaticFunctionCalling automaticFunctionCallingHistory avgLogprobs behavior blockReason
    blockReasonMessage blocked blockingConfidence boolValue callTool candidates category chosenCandidates chunkId citationMetadata citations code
    codeExecutionResult compressionQuality computerUse confidenceScores config consentAudio content continuationToken createTime credentialSecret
    customConfigs customMetadata customVocabulary data dataStore dataStoreSpecs datastore day default description diarization disable disableAttribution
    disabledSafetyPolicies displayName distanceMeters documentName documentOcr domain duration dynamicRetrievalConfig dynamicThreshold elasticSearchParams
    embeddings enableDataRetention enableEnhancedCivicAnswers enablePromptInjectionDetection enableWidget enableZeroDataRetention encodedPolyline endIndex
    endOffset endTime endpoint engine enum environment example excludeDomains excludedPredefinedFunctions executableCode externalApi
    featureSelectionPreference fileId fileSearchStore fileUri filter finishMessage finishReason finished firstPage flagContentUri format fps
    frequencyPenalty functionCall functionCallingConfig functionCalls functionDeclarations functionResponse generationOutputConfig googleMapsUri
    googleMapsWidgetContextToken googleSearchDynamicRetrievalScore googleServiceAccountConfig groundingChunkIndices groundingChunks groundingMetadata
    groundingSupports groundingTypes headers httpBasicAuthConfig httpElementLocation httpOptions hybridSearch id idToken ignoreCallHistory image
    imageOutputOptions imageSearch imageSearchQueries imageSize imageUri includeServerSideToolInvocations includeThoughts index items jsonPath key labels
    language languageAuto languageCode languageCodes languageHints lastPage latLng latitude level license llmRanker logProbability logProbabilitySum
    logprobs logprobsResult longitude manualMode maps maxItems maxLength maxProperties maxResults maximum maximumRemoteCalls mcpServers mediaId
    mediaProcessing message metadata metadataFilter method mimeType minItems minLength minProperties minimum modality mode model
    modelName modelRoutingPreference modelStage modelStatus modelVersion month multiSpeakerVoiceConfig name nullValue nullable numHits numTokens
    numberValue numericValue oauthConfig oidcConfig outcome output outputCompressionQuality outputDimensionality outputMimeType outputUriPrefix
    overwrittenThreshold pageNumber pageSpan parameters parametersJsonSchema partIndex partMetadata partialArgs parts pattern personGeneration photoUri
    placeAnswerSources placeId places prebuiltVoiceConfig presencePenalty probability probabilityScore prominentPeople promptFeedback promptTemplateName
    properties propertyOrdering publicationDate ragChunk ragCorpora ragCorpus ragFileIds ragResources ragRetrievalConfig rankService ranking
    relativePublishTimeDescription renderedContent renderedParts replicatedVoiceConfig required response responseId responseJsonSchema responseLogprobs
    responseMimeType responseSchema responseTemplateName retirementTime retrievalConfig retrievalMetadata retrievalQueries retrievedContext retrievedUrl
    review reviewId reviewSnippet reviewSnippets role route routing safetyRatings safetySettings scheduling sdkBlob sdkHttpResponse searchEntryPoint
    searchTemplate searchTypes seed segment serviceAccount severity severityScore signature similarityTopK simpleSearchParams sourceFlaggingUris sourceId
    sourceText sourceUri speaker speakerLabel speakerVoiceConfigs speechMetadata sseReadTimeout startIndex startOffset startTime statistics stopSequences
    store storeContext streamFunctionCallArguments streamableHttpTransport stringListValue stringValue style taskType temperature terminateOnClose text
    thought thoughtSignature threshold timeRangeFilter timeout title token tokenId tokensDetails tool toolCall toolConfig toolResponse toolType
    topCandidates topK topP truncated type uri url urlContext urlContextMetadata urlMetadata urlRetrievalStatus usageMetadata values
    vectorDistanceThreshold vectorSimilarityThreshold vertexAiSearch vertexRagStore videoMetadata voiceConfig voiceConsentSignature voiceName
    voiceSampleAudio web webSearch webSearchQueries willContinue word wordTimestamp words year
  `),
};

/** The known values of members whose values select a price or a tool. */
export const values: Readonly<Record<string, ReadonlySet<string>>> = {
  service_tier: words(`
    auto batch default fast flex priority scale standard standard_only ultrafast
  `),
  serviceTier: words(`
    flex priority standard unspecified
  `),
  trafficType: words(`
    ON_DEMAND ON_DEMAND_FLEX ON_DEMAND_OFFPEAK ON_DEMAND_PRIORITY PROVISIONED_THROUGHPUT TRAFFIC_TYPE_UNSPECIFIED
  `),
  speed: words(`
    fast standard
  `),
  modalities: words(`
    audio text
  `),
  memory_limit: words(`
    16g 1g 4g 64g
  `),
  ttl: words(`
    12h 1h 30m 5m
  `),
  prompt_cache_retention: words(`
    24h in_memory
  `),
  size: words(`
    1024x1024 1024x1536 1024x1792 1536x1024 1792x1024 256x256 512x512 auto
  `),
  quality: words(`
    auto hd high low max medium standard xhigh
  `),
  complexity: words(`
    high low medium
  `),
  input_fidelity: words(`
    high low
  `),
  output_format: words(`
    gif jpeg png svg webp
  `),
  search_context_size: words(`
    high low medium
  `),
  detail: words(`
    auto high low original
  `),
  bill_to: words(`
    self user_profile
  `),
  type: words(`
    ARRAY BOOLEAN INTEGER NULL NUMBER OBJECT STRING TYPE_UNSPECIFIED adaptive additional_tools advisor_20260301 advisor_message advisor_redacted_result
    advisor_result advisor_tool_result advisor_tool_result_error all allowed_tools allowlist anthropic any apply_patch apply_patch_call
    apply_patch_call_output approximate auto base64 bash_20241022 bash_20250124 bash_code_execution_output bash_code_execution_result
    bash_code_execution_tool_result bash_code_execution_tool_result_error between_tools billing_policy browser_state browser_toolset_20260801
    char_location citations_delta clear_thinking_20251015 clear_tool_uses_20250919 click code_execution_20250522 code_execution_20250825
    code_execution_20260120 code_execution_20260521 code_execution_output code_execution_result code_execution_tool_result
    code_execution_tool_result_error code_interpreter code_interpreter_call compact_20260112 compaction compaction_delta compaction_trigger computer
    computer_20241022 computer_20250124 computer_20251124 computer_call computer_call_output computer_screenshot computer_toolset_20260801 computer_use
    computer_use_preview configuration_update container_auto container_file_citation container_reference container_upload content content_block_delta
    content_block_location content_block_start content_block_stop continue create create_file custom custom_tool_call custom_tool_call_output delete_file
    direct disabled document double_click download_completed download_failed download_started drag enabled encrypted_code_execution_result ephemeral error
    except exec exit fallback fallback_message file file_search file_search_call find_in_page function function_call function_call_output grammar
    http_error image image_edit.completed image_edit.partial_image image_generation image_generation.completed image_generation.partial_image
    image_generation_call image_url inline input_audio input_file input_image input_json_delta input_text input_tokens item_reference json_object
    json_schema keypress local local_shell local_shell_call local_shell_call_output logs mcp mcp_approval_request mcp_approval_response mcp_call
    mcp_list_tools mcp_protocol_error mcp_tool_execution_error mcp_tool_listing mcp_tool_reference mcp_tool_result mcp_tool_use mcp_toolset
    mcp_toolset_reference memory_20250818 message message_delta message_start message_stop messages_changed model_changed moderation_result
    moderation_results move namespace none not_applied object only open_page output_text page_location previous_message_not_found program program_output
    programmatic_tool_calling reasoning reasoning_text redacted_thinking redeemed refusal response.audio.delta response.audio.done
    response.audio.transcript.delta response.audio.transcript.done response.code_interpreter_call.completed response.code_interpreter_call.in_progress
    response.code_interpreter_call.interpreting response.code_interpreter_call_code.delta response.code_interpreter_call_code.done
    response.compaction.compacting response.completed response.content_part.added response.content_part.done response.created
    response.custom_tool_call_input.delta response.custom_tool_call_input.done response.failed response.file_search_call.completed
    response.file_search_call.in_progress response.file_search_call.searching response.function_call_arguments.delta response.function_call_arguments.done
    response.image_generation_call.completed response.image_generation_call.generating response.image_generation_call.in_progress
    response.image_generation_call.partial_image response.in_progress response.incomplete response.mcp_call.completed response.mcp_call.failed
    response.mcp_call.in_progress response.mcp_call_arguments.delta response.mcp_call_arguments.done response.mcp_list_tools.completed
    response.mcp_list_tools.failed response.mcp_list_tools.in_progress response.output_item.added response.output_item.done
    response.output_text.annotation.added response.output_text.delta response.output_text.done response.queued response.reasoning_summary_part.added
    response.reasoning_summary_part.done response.reasoning_summary_text.delta response.reasoning_summary_text.done response.reasoning_text.delta
    response.reasoning_text.done response.refusal.delta response.refusal.done response.shell_call_command.added response.shell_call_command.delta
    response.shell_call_command.done response.shell_call_output_content.delta response.shell_call_output_content.done response.web_search_call.completed
    response.web_search_call.in_progress response.web_search_call.searching screenshot scroll search search_result search_result_location server_tool_use
    shell shell_call shell_call_output signature_delta skill_reference summarize summary_text system_changed tab_opened text text_delta
    text_editor_20241022 text_editor_20250124 text_editor_20250429 text_editor_20250728 text_editor_code_execution_create_result
    text_editor_code_execution_str_replace_result text_editor_code_execution_tool_result text_editor_code_execution_tool_result_error
    text_editor_code_execution_view_result thinking thinking_delta thinking_dropped thinking_mismatch_allowed thinking_turns timeout tokens tool
    tool_addition tool_definition tool_reference tool_removal tool_result tool_search tool_search_call tool_search_output tool_search_tool_bm25
    tool_search_tool_bm25_20251119 tool_search_tool_regex tool_search_tool_regex_20251119 tool_search_tool_result tool_search_tool_result_error
    tool_search_tool_search_result tool_use tool_uses tools_changed type unavailable update_file url url_citation wait web_fetch_20250910
    web_fetch_20260209 web_fetch_20260309 web_fetch_20260318 web_fetch_result web_fetch_tool_result web_fetch_tool_result_error web_search
    web_search_20250305 web_search_2025_08_26 web_search_20260209 web_search_20260318 web_search_call web_search_preview web_search_preview_2025_03_11
    web_search_result web_search_result_location web_search_tool_result web_search_tool_result_error
  `),
  betas: words(`
    admin-user-sign-out-2026-10-08 advisor-tool-2026-03-01 agent-memory-2026-07-22 analytics-usage-cost-2026-08-24 cache-diagnosis-2026-04-07
    ce-claude-code-managed-settings-2026-10-06 ce-plugins-2026-09-01 ce-user-management-2026-07-13 code-execution-2025-05-22 compact-2026-01-12
    compact-2026-09-04 computer-use-2024-10-22 computer-use-2025-01-24 computer-use-2025-11-24 context-1m-2025-08-07 context-management-2025-06-27
    dev-full-thinking-2025-05-14 dreaming-2026-04-21 experimental-claude-tag-2026-10-21 extended-cache-ttl-2025-04-11 fallback-credit-2026-06-01
    fallback-credit-2026-07-01 fast-mode-2026-02-01 files-api-2025-04-14 inline-tools-2026-09-15 interleaved-thinking-2025-05-14 managed-agents-2026-04-01
    mcp-client-2025-04-04 mcp-client-2025-11-20 mcp-client-2026-09-15 mcp-tunnels-2026-06-22 message-batches-2024-09-24 message-threads-2026-08-12
    mid-conversation-output-config-2026-07-01 mid-conversation-system-clear-at-2026-08-21 mid-conversation-tool-changes-2026-07-01
    model-context-window-exceeded-2025-08-26 output-128k-2025-02-19 output-300k-2026-03-24 pdfs-2024-09-25 prompt-caching-2024-07-31
    server-side-fallback-2026-06-01 server-side-fallback-2026-07-01 skills-2025-10-02 spend-limit-reads-2026-09-26 structured-outputs-2025-11-13
    task-budgets-2026-03-13 telemetry-destinations-2026-08-11 thinking-binding-controls-2026-08-01 thinking-display-updates-2026-08-18
    thinking-token-count-2026-05-13 token-counting-2024-11-01 token-efficient-tools-2025-02-19 user-profiles-2026-03-24 user-profiles-2026-08-18
    user-profiles-2026-09-04 user-profiles-billing-2026-10-01 webhooks-2026-10-07
  `),
};
