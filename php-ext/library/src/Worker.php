<?php

declare(strict_types=1);

namespace Pillion;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Exception\TransportException;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\SocketPath;
use Pillion\Worker\Answer;
use Pillion\Worker\Call;
use Pillion\Worker\Connection;
use Pillion\Worker\Handshake;
use Pillion\Worker\Limits;
use Pillion\Worker\Lost;
use Pillion\Worker\Offered;
use Pillion\Worker\Session;
use Pillion\Worker\Signals;
use Pillion\Worker\StopReason;
use Pillion\Worker\Tools;

/**
 * Offers the tools of this process to the sidecar, and with them to whoever calls the sidecar's tools:
 * MCP clients, REST, other PHP processes. One call at a time; more processes make more.
 */
final class Worker
{
    /** Pauses between tries to reach the sidecar, in seconds. */
    private const FIRST_PAUSE = 0.1;
    private const LONGEST_PAUSE = 5.0;

    private readonly string $socket;
    private readonly string $name;
    private readonly Tools $tools;
    private ?object $logger = null;
    /** @var (\Closure(Call, \Closure(): ToolResult): ToolResult)|null */
    private ?\Closure $around = null;
    private ?Limits $limits = null;

    /**
     * @param ?string $socket of the sidecar; else that of the setting `pillion.socket`, `$PILLION_SOCKET`, or
     *                        the default path
     * @param ?string $name   in listings and logs, 1 to 100 characters; else that of the script
     *
     * @throws InvalidInputException when the name is none
     */
    public function __construct(?string $socket = null, ?string $name = null)
    {
        $name ??= basename((string) ($_SERVER['argv'][0] ?? 'php'), '.php');
        if (preg_match('/^.{1,100}$/usD', $name) !== 1) {
            throw Failure::invalidInput('A worker needs a name of 1 to 100 characters');
        }
        $setting = (string) ini_get('pillion.socket');
        $this->socket = $socket ?? ($setting === '' ? SocketPath::default() : $setting);
        $this->name = $name;
        $this->tools = new Tools();
    }

    /**
     * Offers a tool, or several: of a registry all but the built-in ones, which the sidecar has itself; of a
     * class or an object what has the attribute {@see AsTool}; else one, a callable by its signature.
     *
     * @param ToolRegistry|ToolInterface|ToolDefinition|callable|object|array{object|string, string}|string $tool
     * @param ?callable $handler `fn(array $arguments, string $callId): mixed`, for a definition
     * @param array{title?: string, annotations?: array<string, mixed>, outputSchema?: array<string, mixed>, timeout?: int|float, requiresConfirmation?: bool} $options
     *        what MCP clients are told besides; how long the sidecar waits for a call, in seconds; and, in place
     *        of what the definition says, whether it asks for approval
     *
     * @throws InvalidInputException when it cannot be a tool, or the name is taken
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
     * A PSR-3 logger, which gets a line for each call and for each connection. No line holds arguments or
     * results. Without one, PHP's error log hears of lost connections.
     *
     * @param ?object $logger with the method `log()`
     *
     * @throws InvalidInputException when it has no such method
     */
    public function setLogger(?object $logger): static
    {
        if ($logger !== null && !is_callable([$logger, 'log'])) {
            throw Failure::invalidInput('The logger needs the method log()');
        }
        $this->logger = $logger;
        return $this;
    }

    /**
     * A PSR-14 dispatcher, which gets a {@see Event\ToolCallStarted} and a {@see Event\ToolCallFinished} for
     * each call.
     *
     * @param ?object $dispatcher with the method `dispatch()`, such as Psr\EventDispatcher\EventDispatcherInterface
     *
     * @throws InvalidInputException when it has no such method
     */
    public function setEventDispatcher(?object $dispatcher): static
    {
        $this->tools->setEventDispatcher($dispatcher);
        return $this;
    }

    /**
     * What is to happen around each call: before it and after it, or in its place.
     *
     * @param ?callable(Call, \Closure(): ToolResult): ToolResult $around
     */
    public function around(?callable $around): static
    {
        $this->around = $around === null ? null : $around(...);
        return $this;
    }

    /** Ends {@see run()} after the call that is under way. For tools, and for signal handlers. */
    public function stop(): void
    {
        if ($this->limits !== null) {
            $this->limits->asked ??= StopReason::Asked;
        }
    }

    /**
     * Serves until a limit is reached, SIGTERM or SIGINT comes, or {@see stop()} is called; a call that is
     * under way is ended before. A sidecar that goes away is waited for.
     *
     * @param ?int   $maxCalls   after how many calls it ends
     * @param ?float $maxSeconds after how many seconds
     * @param ?int   $maxMemory  in bytes: ends after a call with which the process is larger
     *
     * @throws InvalidInputException when there are no tools, a limit is none, or the sidecar refuses a tool
     * @throws PillionException      when the sidecar takes no workers, or says what makes no sense
     */
    public function run(?int $maxCalls = null, ?float $maxSeconds = null, ?int $maxMemory = null): StopReason
    {
        if ($this->limits !== null) {
            throw Failure::invalidInput('The worker runs already');
        }
        $offer = $this->offer();
        $limits = new Limits($maxCalls, $maxSeconds, $maxMemory);
        $this->limits = $limits;
        $signals = new Signals(static function () use ($limits): void {
            $limits->asked ??= StopReason::Signal;
        });
        try {
            $pause = self::FIRST_PAUSE;
            while (($reason = $limits->reached()) === null) {
                $began = Limits::now();
                try {
                    $this->serve($offer, $limits);
                } catch (Lost $lost) {
                    // Who is sent away at once, time after time, is to ask less and less often.
                    $pause = Limits::now() - $began > self::LONGEST_PAUSE ? self::FIRST_PAUSE : $pause;
                    $this->log('warning', $lost->getMessage() . "; trying again in $pause s");
                    $this->rest($pause, $limits);
                    $pause = min(2 * $pause, self::LONGEST_PAUSE);
                }
            }
            $this->log('info', "Worker '$this->name' ends: $reason->value", ['calls' => $limits->calls]);
            return $reason;
        } finally {
            $signals->restore();
            $this->limits = null;
        }
    }

    /**
     * @throws Lost
     * @throws PillionException
     */
    private function serve(string $offer, Limits $limits): void
    {
        $connection = new Connection($this->socket);
        try {
            $id = Handshake::make($connection, $offer);
            $this->log('info', "Worker '$this->name' offers " . implode(', ', $this->tools->names()), ['worker' => $id]);
            (new Session($connection, $limits, $this->call(...)))->serve();
        } finally {
            $connection->close();
        }
    }

    private function call(Call $call, string $arguments): ?ToolResult
    {
        $tool = $this->tools->find($call->tool);
        if ($tool === null) {
            return null;
        }
        $began = Limits::now();
        $run = fn (): ToolResult => $this->tools->run($tool, $call, $arguments);
        $result = $call->during(function () use ($run, $call): ToolResult {
            try {
                return $this->around === null ? $run() : ($this->around)($call, $run);
            } catch (\Throwable $thrown) {
                $call->thrown ??= $thrown;
                $code = $thrown instanceof PillionException ? $thrown->errorCode : 'internal_error';
                return ToolResult::failure(Argument::legible($thrown->getMessage()), $code);
            }
        });
        $this->log($result->success ? 'info' : 'warning', "Tool '$call->tool' " . ($result->success ? 'done' : "failed: $result->errorCode"), [
            'call' => $call->id,
            'duration_ms' => (int) ((Limits::now() - $began) * 1000),
        ]);
        // What the tool itself returned knows an empty map from an empty list.
        $answer = $result->success && $result === $tool->passed ? $tool->returned : $result;
        $tool->forget();
        return $answer;
    }

    /** @throws InvalidInputException */
    private function offer(): string
    {
        $entries = $this->tools->descriptions();
        if ($entries === []) {
            throw Failure::invalidInput('A worker needs a tool: call add()');
        }
        try {
            return Answer::json(['name' => $this->name, 'tools' => $entries]);
        } catch (\JsonException $e) {
            throw Failure::invalidInput('The tools are not JSON: ' . $e->getMessage());
        }
    }

    private function rest(float $seconds, Limits $limits): void
    {
        $end = Limits::now() + $limits->wait($seconds);
        while ($limits->reached() === null && ($left = $end - Limits::now()) > 0) {
            usleep((int) (min($left, 0.1) * 1e6));
        }
    }

    /** @param array<string, mixed> $context */
    private function log(string $level, string $message, array $context = []): void
    {
        if ($this->logger !== null) {
            $this->logger->log($level, $message, $context);
        } elseif ($level === 'warning' && !isset($context['call'])) {
            error_log("Pillion: $message");
        }
    }
}
