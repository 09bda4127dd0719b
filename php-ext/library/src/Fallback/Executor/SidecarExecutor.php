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
 * Runs calls in the sidecar, which requests this process to run PHP tools and callables. Every call has
 * exactly one result.
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
                $this->connection();
            } catch (UnavailableException | TransportException) {
                // The first call connects again, and reports the failure.
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
        return NestingLimit::enter(
            fn (bool $isNested): array => $this->execute($calls, $context, $isParallel, $isNested),
            // Listeners are not notified of calls that nest too deep, because a listener might make
            // another call.
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
            return $execution->run($this->connection(), $isParallel, $isNested);
        } catch (UnavailableException | TransportException | TimeoutException $failure) {
            if ($execution->listenerFailure === $failure) {
                throw $failure;
            }
            $this->connection?->close();
            $this->connection = null;
            return $execution->failOpenCalls(self::describe($failure));
        }
    }

    /** Returns the open connection, or a new one if there is none, if it is closed, or if it leads to another socket. */
    private function connection(): ExecutorConnection
    {
        $socket = SocketPath::default();
        if ($this->connection === null || $this->connection->socket !== $socket || !$this->connection->isOpen()) {
            $this->connection = new ExecutorConnection($socket, $this->options);
        }
        return $this->connection;
    }

    private static function describe(PillionException $failure): ToolFailure
    {
        $isTimeout = $failure instanceof TimeoutException;
        return new ToolFailure($isTimeout ? 'timeout' : 'unavailable', $failure->getMessage());
    }
}
