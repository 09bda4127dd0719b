<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\LogLine;
use Pillion\Worker\Call;
use Pillion\Worker\Connection;
use Pillion\Worker\ConnectionLostException;
use Pillion\Worker\Handshake;
use Pillion\Worker\MessageEncoder;
use Pillion\Worker\OfferedTools;
use Pillion\Worker\RunLimits;
use Pillion\Worker\SignalHandlers;
use Pillion\Worker\StopReason;
use Pillion\Worker\WorkerSession;

/**
 * Offers the tools of this process to the sidecar, and through the sidecar to MCP clients, REST clients and
 * other PHP processes. A worker runs one call at a time; start several processes to run calls concurrently.
 */
final class Worker
{
    /** The pause before the first attempt to reconnect, in seconds. */
    private const MIN_RECONNECT_INTERVAL = 0.1;
    /** Maximum pause between two attempts to reconnect, in seconds. */
    private const MAX_RECONNECT_INTERVAL = 5.0;

    private readonly string $socket;
    private readonly string $name;
    private readonly OfferedTools $tools;
    private ?object $logger = null;
    /** @var (\Closure(Call, \Closure(): ToolResult): ToolResult)|null */
    private ?\Closure $middleware = null;
    private ?RunLimits $limits = null;

    /**
     * @param ?string $socket the sidecar's socket; default: the socket of `new Sidecar()`
     * @param ?string $name   the worker's name in listings and logs, 1 to 100 characters; default: the name of the script
     *
     * @throws InvalidInputException when the name is invalid
     */
    public function __construct(?string $socket = null, ?string $name = null)
    {
        $name ??= basename((string) ($_SERVER['argv'][0] ?? 'php'), '.php');
        if (preg_match('/^.{1,100}$/usD', $name) !== 1) {
            throw Failure::invalidInput('A worker needs a name of 1 to 100 characters');
        }
        $this->socket = $socket ?? (new Sidecar())->getSocketPath();
        $this->name = $name;
        $this->tools = new OfferedTools();
    }

    /**
     * Offers one or more tools:
     *
     *  - all tools of a registry, except the built-in tools, which the sidecar already has
     *  - all code with the attribute {@see AsTool} in a class or an object
     *  - a single tool: a tool object, a definition with `$handler`, or a callable whose signature
     *    defines the tool
     *
     * @param ToolRegistry|ToolInterface|ToolDefinition|callable|object|array{object|string, string}|string $tool
     * @param ?callable $handler `fn(array $arguments, string $callId): mixed`, required for a definition
     * @param array{title?: string, annotations?: array<string, mixed>, outputSchema?: array<string, mixed>, timeout?: int|float, requiresConfirmation?: bool} $options
     *        `title`, `annotations` and `outputSchema` for MCP clients; `timeout`: how long the sidecar waits for
     *        a call, in seconds; `requiresConfirmation` overrides the definition
     *
     * @throws InvalidInputException when `$tool` cannot be a tool, or the name is taken
     */
    public function add(object|array|string $tool, ?callable $handler = null, array $options = []): static
    {
        $this->tools->add($tool, $handler, $options);
        return $this;
    }

    /** @return list<string> the names of the tools */
    public function getTools(): array
    {
        return $this->tools->names();
    }

    public function getSocketPath(): string
    {
        return $this->socket;
    }

    /**
     * Sets a PSR-3 logger that receives one message for each call and for each connection. No message
     * contains arguments or results. Without a logger, lost connections are written to PHP's error log.
     *
     * @param ?object $logger a `Psr\Log\LoggerInterface`, or any object with its `log()`
     *
     * @throws InvalidInputException when the object has no `log()` method
     */
    public function setLogger(?object $logger): static
    {
        if ($logger !== null && !is_callable([$logger, 'log'])) {
            throw Failure::invalidInput('$logger must have the method log()');
        }
        $this->logger = $logger;
        return $this;
    }

    /**
     * Sets a PSR-14 dispatcher that receives a {@see Event\ToolCallStarted} and a
     * {@see Event\ToolCallFinished} for each call.
     *
     * @param ?object $dispatcher a `Psr\EventDispatcher\EventDispatcherInterface`, or any object with its `dispatch()`
     *
     * @throws InvalidInputException when the object has no `dispatch()` method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
        $this->tools->setEventDispatcher($dispatcher);
        return $this;
    }

    /**
     * Sets middleware for calls: code that runs before, after or instead of each call.
     *
     * @param ?callable(Call, \Closure(): ToolResult): ToolResult $around
     */
    public function around(?callable $around): static
    {
        $this->middleware = $around === null ? null : $around(...);
        return $this;
    }

    /** Makes {@see run()} return after the current call. Intended for tools and signal handlers. */
    public function stop(): void
    {
        if ($this->limits !== null) {
            $this->limits->requestedStop ??= StopReason::Requested;
        }
    }

    /**
     * Serves calls until a limit is reached, SIGTERM or SIGINT arrives, or {@see stop()} is called; the
     * current call finishes first. If the connection to the sidecar is lost, the worker reconnects.
     *
     * @param ?int   $maxCalls   the number of calls after which the worker stops
     * @param ?float $maxSeconds the number of seconds after which the worker stops
     * @param ?int   $maxMemory  in bytes: the worker stops after a call if the process uses at least this much memory
     *
     * @throws InvalidInputException when there are no tools, a limit is invalid, or the sidecar rejects a tool
     * @throws PillionException      when the sidecar does not accept workers, or sends an invalid message
     */
    public function run(?int $maxCalls = null, ?float $maxSeconds = null, ?int $maxMemory = null): StopReason
    {
        if ($this->limits !== null) {
            throw Failure::invalidInput('The worker is already running');
        }
        $offer = $this->encodeOffer();
        $signals = new SignalHandlers();
        $limits = new RunLimits($maxCalls, $maxSeconds, $maxMemory, $signals);
        $this->limits = $limits;
        $signals->install();
        try {
            $pauseSeconds = self::MIN_RECONNECT_INTERVAL;
            while (($stopReason = $limits->reachedLimit()) === null) {
                $startedAt = Deadline::now();
                try {
                    $this->serve($offer, $limits, $signals);
                } catch (ConnectionLostException $exception) {
                    // The pause doubles after each attempt, and starts again at the minimum after a
                    // connection that was stable. A sidecar that closes each new connection
                    // immediately therefore gets few attempts.
                    $wasStable = Deadline::now() - $startedAt > self::MAX_RECONNECT_INTERVAL;
                    $pauseSeconds = $wasStable ? self::MIN_RECONNECT_INTERVAL : $pauseSeconds;
                    $this->log('warning', $exception->getMessage() . "; reconnecting in $pauseSeconds s");
                    $this->pause($pauseSeconds, $limits);
                    $pauseSeconds = min(2 * $pauseSeconds, self::MAX_RECONNECT_INTERVAL);
                }
            }
            $this->log('info', "Worker '$this->name' stopped: $stopReason->value", ['calls' => $limits->callCount]);
            return $stopReason;
        } finally {
            $signals->restore();
            $this->limits = null;
        }
    }

    /**
     * @throws ConnectionLostException
     * @throws PillionException
     */
    private function serve(string $offer, RunLimits $limits, SignalHandlers $signals): void
    {
        $connection = new Connection($this->socket);
        try {
            $workerId = Handshake::perform($connection, $offer);
            $this->log('info', "Worker '$this->name' offers " . implode(', ', $this->tools->names()), ['worker' => $workerId]);
            $runCall = fn (Call $call, string $arguments): ?ToolResult => $this->runCall($call, $arguments, $signals);
            (new WorkerSession($connection, $limits, $runCall))->serve();
        } finally {
            $connection->close();
        }
    }

    private function runCall(Call $call, string $arguments, SignalHandlers $signals): ?ToolResult
    {
        $tool = $this->tools->find($call->tool);
        if ($tool === null) {
            return null;
        }
        $startedAt = Deadline::now();
        $runTool = fn (): ToolResult => $this->tools->run($tool, $call, $arguments);
        $result = $call->runAsCurrent(fn (): ToolResult => $signals->runInterruptibly(function () use ($runTool, $call): ToolResult {
            try {
                return $this->middleware === null ? $runTool() : ($this->middleware)($call, $runTool);
            } catch (\Throwable $exception) {
                $call->thrown ??= $exception;
                $errorCode = $exception instanceof PillionException ? $exception->errorCode : 'internal_error';
                return ToolResult::failure(Argument::escapeInvalidUtf8($exception->getMessage()), $errorCode);
            }
        }));
        $this->log($result->success ? 'info' : 'warning', "Tool '$call->tool' " . ($result->success ? 'succeeded' : "failed: $result->errorCode"), [
            'call' => $call->id,
            'duration_ms' => (int) ((Deadline::now() - $startedAt) * 1000),
        ]);
        // The tool's own return value is preferred to the executor's result, because only the
        // return value distinguishes an empty map from an empty list.
        $sentResult = $result->success && $result === $tool->executorResult ? $tool->returnedResult : $result;
        $tool->reset();
        return $sentResult;
    }

    /** @throws InvalidInputException */
    private function encodeOffer(): string
    {
        $descriptions = $this->tools->descriptions();
        if ($descriptions === []) {
            throw Failure::invalidInput('The worker has no tools: call add() before run()');
        }
        try {
            return MessageEncoder::encodeJson(['name' => $this->name, 'tools' => $descriptions]);
        } catch (\JsonException $exception) {
            throw Failure::invalidInput('The tools cannot be converted to JSON: ' . $exception->getMessage());
        }
    }

    private function pause(float $seconds, RunLimits $limits): void
    {
        $endTime = Deadline::now() + $limits->limitWait($seconds);
        while ($limits->reachedLimit() === null && ($remainingSeconds = $endTime - Deadline::now()) > 0) {
            usleep((int) (min($remainingSeconds, 0.1) * 1e6));
        }
    }

    /** @param array<string, mixed> $context */
    private function log(string $level, string $message, array $context = []): void
    {
        if ($this->logger !== null) {
            $this->logger->log($level, $message, $context);
        } elseif ($level === 'warning' && !isset($context['call'])) {
            LogLine::write("Pillion: $message");
        }
    }
}
