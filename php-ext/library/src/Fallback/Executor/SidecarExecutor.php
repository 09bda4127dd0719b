<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\TransportException;
use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\UnavailableException;
use Pillion\Fallback\Context;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Fallback\SocketPath;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Runs calls in the sidecar, which sends requests to this process to run PHP tools and callables.
 * Every call has exactly one result.
 *
 * @internal
 */
final class SidecarExecutor
{
    private ?ExecutorConnection $connection = null;

    /** @throws \Pillion\Exception\InvalidInputException when the sidecar is running and rejects an option */
    public function __construct(
        private readonly ToolEntries $entries,
        private readonly ExecutorOptions $options,
        private readonly Hooks $hooks = new Hooks(),
    ) {
        if (!$options->areDefaults) {
            try {
                $this->connect();
            } catch (UnavailableException | TransportException) {
                // A failed connection is ignored here, because the first call connects again and
                // reports the failure.
            }
        }
    }

    public function __destruct()
    {
        $this->connection?->close();
    }

    /**
     * @param list<ToolCall> $calls
     * @param bool           $isParallel whether the sidecar's tools run concurrently with each other and with PHP tools
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws \Pillion\Exception\InvalidInputException when the sidecar rejects the definition of a tool
     */
    public function run(array $calls, Context $context, bool $isParallel): array
    {
        return NestingLimit::runNested(
            fn (bool $isNested): array => $this->execute($calls, $context, $isParallel, $isNested),
            // Listeners are not notified about calls that exceed the nesting limit, because a
            // listener might make another nested call.
            static fn (ToolFailure $failure): array => array_map(static fn (ToolCall $call): ToolResult => $failure->toResult($call), $calls),
        );
    }

    /**
     * @param list<ToolCall> $calls
     *
     * @return list<ToolResult>
     */
    private function execute(array $calls, Context $context, bool $isParallel, bool $isNested): array
    {
        if ($calls === []) {
            return [];
        }
        $execution = new Execution($this->entries, $this->options, $this->hooks, $context, $calls);
        try {
            return $execution->run($this->connect(), $isParallel, $isNested);
        } catch (UnavailableException | TransportException | TimeoutException $failure) {
            if ($execution->listenerFailure === $failure) {
                throw $failure;
            }
            $this->connection?->close();
            $this->connection = null;
            return $execution->failOpenCalls(self::toToolFailure($failure));
        }
    }

    /** Returns the open connection to the current socket, or a new connection if no connection to this socket is open. */
    private function connect(): ExecutorConnection
    {
        $socket = SocketPath::default();
        if ($this->connection === null || $this->connection->socket !== $socket || !$this->connection->isOpen()) {
            $this->connection = new ExecutorConnection($socket, $this->options);
        }
        return $this->connection;
    }

    private static function toToolFailure(PillionException $failure): ToolFailure
    {
        $isTimeout = $failure instanceof TimeoutException;
        return new ToolFailure($isTimeout ? 'timeout' : 'unavailable', $failure->getMessage());
    }
}
