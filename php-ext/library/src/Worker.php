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
    /** First and longest pause between connection attempts, in seconds. */
    private const MIN_PAUSE = 0.1;
    private const MAX_PAUSE = 5.0;

    private readonly string $socket;
    private readonly string $name;
    private readonly OfferedTools $tools;
    private ?object $logger = null;
    /** @var (\Closure(Call, \Closure(): ToolResult): ToolResult)|null */
    private ?\Closure $around = null;
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
     * Offers one or more tools: all tools of a registry except the built-in ones, which the sidecar already
     * has; everything with the attribute {@see AsTool} in a class or an object; otherwise a single tool,
     * defined by the signature of a callable.
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
        $this->around = $around === null ? null : $around(...);
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
            $pause = self::MIN_PAUSE;
            while (($reason = $limits->reachedLimit()) === null) {
                $startedAt = Deadline::now();
                try {
                    $this->serve($offer, $limits, $signals);
                } catch (ConnectionLostException $lost) {
                    // Exponential backoff for a sidecar that repeatedly closes new connections at once.
                    $pause = Deadline::now() - $startedAt > self::MAX_PAUSE ? self::MIN_PAUSE : $pause;
                    $this->log('warning', $lost->getMessage() . "; reconnecting in $pause s");
                    $this->pause($pause, $limits);
                    $pause = min(2 * $pause, self::MAX_PAUSE);
                }
            }
            $this->log('info', "Worker '$this->name' stopped: $reason->value", ['calls' => $limits->calls]);
            return $reason;
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
            $id = Handshake::perform($connection, $offer);
            $this->log('info', "Worker '$this->name' offers " . implode(', ', $this->tools->names()), ['worker' => $id]);
            $run = fn (Call $call, string $arguments): ?ToolResult => $this->call($call, $arguments, $signals);
            (new WorkerSession($connection, $limits, $run))->serve();
        } finally {
            $connection->close();
        }
    }

    private function call(Call $call, string $arguments, SignalHandlers $signals): ?ToolResult
    {
        $tool = $this->tools->find($call->tool);
        if ($tool === null) {
            return null;
        }
        $startedAt = Deadline::now();
        $run = fn (): ToolResult => $this->tools->run($tool, $call, $arguments);
        $result = $call->during(fn (): ToolResult => $signals->interrupting(function () use ($run, $call): ToolResult {
            try {
                return $this->around === null ? $run() : ($this->around)($call, $run);
            } catch (\Throwable $exception) {
                $call->thrown ??= $exception;
                $code = $exception instanceof PillionException ? $exception->errorCode : 'internal_error';
                return ToolResult::failure(Argument::makeLegible($exception->getMessage()), $code);
            }
        }));
        $this->log($result->success ? 'info' : 'warning', "Tool '$call->tool' " . ($result->success ? 'done' : "failed: $result->errorCode"), [
            'call' => $call->id,
            'duration_ms' => (int) ((Deadline::now() - $startedAt) * 1000),
        ]);
        // The tool's own return value is preferred, because in it an empty map is still distinct
        // from an empty list.
        $answer = $result->success && $result === $tool->executorResult ? $tool->returned : $result;
        $tool->reset();
        return $answer;
    }

    /** @throws InvalidInputException */
    private function encodeOffer(): string
    {
        $entries = $this->tools->descriptions();
        if ($entries === []) {
            throw Failure::invalidInput('The worker has no tools: call add() before run()');
        }
        try {
            return MessageEncoder::encodeJson(['name' => $this->name, 'tools' => $entries]);
        } catch (\JsonException $e) {
            throw Failure::invalidInput('The tools cannot be converted to JSON: ' . $e->getMessage());
        }
    }

    private function pause(float $seconds, RunLimits $limits): void
    {
        $end = Deadline::now() + $limits->cappedWait($seconds);
        while ($limits->reachedLimit() === null && ($remaining = $end - Deadline::now()) > 0) {
            usleep((int) (min($remaining, 0.1) * 1e6));
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
