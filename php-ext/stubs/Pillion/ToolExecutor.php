<?php

namespace Pillion;

/**
 * Runs calls: finds the tool, checks the arguments, keeps limits and deadlines. Every
 * call ends in exactly one result, and a failure never touches another call.
 */
class ToolExecutor
{
    private ToolRegistry $registry;

    /**
     * Approvals: a call needs one if the policy of its tool, else of its MCP server, else the default
     * says so, or its definition's `requiresConfirmation`. `approve` decides; null means that it has
     * not been decided. Then, or without `approve`, the call ends as `approval_required`, with
     * `approval_id` and `arguments` in the metadata, and runs once its context has the id in `approved`.
     * An empty map in these arguments is a `stdClass`, so that they are the same when they are sent again.
     *
     * `before` is asked last before a call runs: null lets it run, a result takes its place. The
     * context that both see has `approval_id` when the call needs approval.
     *
     * @param array{timeout?: int|float, tool_timeouts?: array<string, int|float>, max_concurrent?: int, max_concurrent_local?: int, max_concurrent_total?: int, server_concurrency?: array<string, int>, tool_concurrency?: array<string, int>, queue_timeout?: int|float, max_output_bytes?: int, enable_caching?: bool, rate_limits?: array{every_tool?: array{per_minute?: int, per_hour?: int, per_day?: int}, tools?: array<string, array{per_minute?: int, per_hour?: int, per_day?: int}>, servers?: array<string, array{per_minute?: int, per_hour?: int, per_day?: int}>}, approvals?: array{default?: 'auto'|'always-ask'|'trusted-only', trusted_tools?: list<string>, tools?: array<string, 'auto'|'always-ask'|'trusted-only'>, servers?: array<string, 'auto'|'always-ask'|'trusted-only'>}, approve?: ?callable(ToolCall, ToolDefinition, array<string, mixed>): ?bool, before?: ?callable(ToolCall, ToolDefinition, array<string, mixed>): ?ToolResult} $options
     *        times in seconds
     *
     * @throws Exception\InvalidInputException when an option is unknown or not valid
     */
    public function __construct(ToolRegistry $registry, array $options = [])
    {
    }

    /**
     * @param ToolCall|array<string, mixed> $call    an array as {@see ToolCall::fromArray()} takes it
     * @param array{user?: string, channel?: string, approved?: list<string>, denied?: list<string>, ...} $context `user` and `channel`, for limits and tools; `approved` and
     *                                               `denied`, lists of approval ids; and what else tools
     *                                               should know
     *
     * @throws Exception\InvalidInputException when the call is none
     */
    public function execute(ToolCall|array $call, array $context = []): ToolResult
    {
    }

    /**
     * Runs calls one after the other.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array{user?: string, channel?: string, approved?: list<string>, denied?: list<string>, ...} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\InvalidInputException when a call is none
     */
    public function executeAll(array $calls, array $context = []): array
    {
    }

    /**
     * Runs native and MCP tools side by side, and beside them those in PHP one after the other.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array{user?: string, channel?: string, approved?: list<string>, denied?: list<string>, ...} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\InvalidInputException when a call is none
     */
    public function executeParallel(array $calls, array $context = []): array
    {
    }

    /**
     * A PSR-3 logger, which gets a line for each call: `info`, or `warning` when it fails. No line holds
     * arguments or results.
     *
     * @param ?object $logger with the method `log()`, such as Psr\Log\LoggerInterface
     *
     * @throws Exception\InvalidInputException when it has no such method
     */
    public function setLogger(?object $logger): static
    {
    }

    /**
     * A PSR-14 dispatcher, which gets a {@see Event\ToolCallStarted} and a {@see Event\ToolCallFinished} for
     * each call. What it throws ends the whole execution.
     *
     * @param ?object $dispatcher with the method `dispatch()`, such as Psr\EventDispatcher\EventDispatcherInterface
     *
     * @throws Exception\InvalidInputException when it has no such method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
    }
}
