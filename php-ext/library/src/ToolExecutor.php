<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Fallback\CallParser;
use Pillion\Fallback\Context;
use Pillion\Fallback\Executor\ExecutorOptions;
use Pillion\Fallback\Executor\SidecarExecutor;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Registry\ToolEntries;

/**
 * Runs tool calls: finds the tool, validates the arguments, enforces limits and deadlines. Every call has
 * exactly one result, and a failed call does not affect other calls.
 */
class ToolExecutor
{
    private readonly Hooks $hooks;
    private readonly SidecarExecutor $executor;

    /**
     * A call needs approval if its tool definition sets `requiresConfirmation`, or if the approval
     * policy requires it. The policy of the tool takes precedence over the policy of the tool's MCP
     * server, which takes precedence over the default policy.
     *
     * The callable `approve` approves or denies a call that needs approval. Without a decision, the
     * call ends with the error code `approval_required`, and with `approval_id` and `arguments` in
     * the metadata. To run the call, send it again with the approval ID in `approved` of the
     * context. An empty map in `arguments` is a `stdClass`, so that the arguments stay identical
     * when the application sends them again.
     *
     * The callable `before` is the last check before a call runs. If `before` returns a result, the
     * call does not run and has this result. If `before` returns null, the call runs.
     *
     * The context that `approve` and `before` receive has `approval_id` if the call needs approval.
     *
     * @param array{timeout?: int|float, tool_timeouts?: array<string, int|float>, max_concurrent?: int, max_concurrent_local?: int, max_concurrent_total?: int, server_concurrency?: array<string, int>, tool_concurrency?: array<string, int>, queue_timeout?: int|float, max_output_bytes?: int, enable_caching?: bool, rate_limits?: array{default?: array{per_minute?: int, per_hour?: int, per_day?: int}, tools?: array<string, array{per_minute?: int, per_hour?: int, per_day?: int}>, servers?: array<string, array{per_minute?: int, per_hour?: int, per_day?: int}>}, approvals?: array{default?: 'auto'|'always-ask'|'trusted-only', trusted_tools?: list<string>, tools?: array<string, 'auto'|'always-ask'|'trusted-only'>, servers?: array<string, 'auto'|'always-ask'|'trusted-only'>}, approve?: ?callable(ToolCall, ToolDefinition, array<string, mixed>): (bool|array<string, mixed>|null), before?: ?callable(ToolCall, ToolDefinition, array<string, mixed>): ?ToolResult} $options
     *        times in seconds
     *
     * @throws Exception\InvalidInputException when an option is unknown or not valid
     */
    public function __construct(ToolRegistry $registry, array $options = [])
    {
        $this->hooks = new Hooks();
        $this->executor = new SidecarExecutor(ToolEntries::forRegistry($registry), new ExecutorOptions($options), $this->hooks);
    }

    /**
     * @param ToolCall|array<string, mixed> $call    an array in a form that {@see ToolCall::fromArray()} accepts
     * @param array{user?: string, channel?: string, approved?: list<string>|array<string, array<string, mixed>>, denied?: list<string>, ...} $context `user` and `channel` (for limits and tools); `approved` and
     *                                               `denied` (lists of approval IDs); and any other values for
     *                                               tools
     *
     * @throws Exception\InvalidInputException when the call is invalid
     */
    public function execute(ToolCall|array $call, array $context = []): ToolResult
    {
        return $this->executor->run([CallParser::parse($call)], Context::fromArray($context), false)[0];
    }

    /**
     * Runs calls one after the other.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array{user?: string, channel?: string, approved?: list<string>|array<string, array<string, mixed>>, denied?: list<string>, ...} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\InvalidInputException when a call is invalid
     */
    public function executeAll(array $calls, array $context = []): array
    {
        return $this->executor->run(CallParser::parseAll($calls), Context::fromArray($context), false);
    }

    /**
     * Runs built-in and MCP tools concurrently; at the same time PHP tools run one after the other.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array{user?: string, channel?: string, approved?: list<string>|array<string, array<string, mixed>>, denied?: list<string>, ...} $context
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws Exception\InvalidInputException when a call is invalid
     */
    public function executeParallel(array $calls, array $context = []): array
    {
        return $this->executor->run(CallParser::parseAll($calls), Context::fromArray($context), true);
    }

    /**
     * Sets a PSR-3 logger that receives one message for each call: `info`, or `warning` if the call fails. No
     * message contains arguments or results.
     *
     * @param ?object $logger a `Psr\Log\LoggerInterface`, or any object with its `log()`
     *
     * @throws Exception\InvalidInputException when the object has no `log()` method
     */
    public function setLogger(?object $logger): static
    {
        $this->hooks->setLogger($logger);
        return $this;
    }

    /**
     * Sets a PSR-14 dispatcher that receives a {@see Event\ToolCallStarted} and a
     * {@see Event\ToolCallFinished} for each call. An exception from the dispatcher ends the whole execution.
     *
     * @param ?object $dispatcher a `Psr\EventDispatcher\EventDispatcherInterface`, or any object with its `dispatch()`
     *
     * @throws Exception\InvalidInputException when the object has no `dispatch()` method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
        $this->hooks->setEventDispatcher($dispatcher);
        return $this;
    }
}
