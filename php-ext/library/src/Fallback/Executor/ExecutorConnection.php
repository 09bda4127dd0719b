<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Exception\TransportException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\Response;
use Pillion\Fallback\Http\TransportErrors;
use Pillion\Fallback\Registry\ToolEntries;
use Pillion\Worker\Connection;
use Pillion\Worker\ConnectionLostException;
use Pillion\Worker\MessageEncoder;
use Pillion\Worker\Upgrade;

/**
 * The connection of an executor to the sidecar. The connection carries JSON-RPC 2.0 messages, one
 * per line. Several executions may use the connection at a time, nested or in fibers, so each
 * execution has its own inbox.
 *
 * @internal
 */
final class ExecutorConnection
{
    private const PROTOCOL = 'pillion-executor';
    /**
     * Time in seconds that is added to the longest timeout of a call, to get the maximum time
     * without a message from the sidecar.
     */
    private const EXTRA_SILENCE_TIMEOUT = 10.0;
    /** Maximum duration of one wait for a message, in seconds, so that signal handlers run. */
    private const MAX_WAIT_INTERVAL = 1.0;

    private readonly Connection $connection;
    /** Maximum time without a message from the sidecar during an execution, in seconds. */
    private readonly float $silenceTimeout;
    private readonly Definitions $definitions;
    private int $lastId = 0;
    private bool $isClosed = false;
    /** @var array<int, list<\stdClass>> messages by the ID of their execution */
    private array $inboxes = [];

    /**
     * @throws \Pillion\Exception\UnavailableException  when the sidecar is not running, or accepts no more executors
     * @throws \Pillion\Exception\InvalidInputException when the sidecar rejects an option
     * @throws TransportException                       when the response is invalid
     */
    public function __construct(public readonly string $socket, ExecutorOptions $options)
    {
        try {
            $connection = new Connection($socket);
        } catch (ConnectionLostException $exception) {
            throw Failure::unavailable(TransportErrors::connectFailure($socket, $exception->getCode())->getMessage() . '; start it with `pillion serve`');
        }
        $this->silenceTimeout = $options->findMaxTimeout() + self::EXTRA_SILENCE_TIMEOUT;
        try {
            [$status, , $body] = Upgrade::request($connection, '/api/v1/executors', self::PROTOCOL, "{\"options\":$options->json}", $this->silenceTimeout);
        } catch (ConnectionLostException $exception) {
            throw Failure::unavailable($exception->getMessage());
        }
        if ($status !== 101) {
            $reason = Upgrade::readReason($status, $body);
            throw match (true) {
                $status === 400 => Failure::invalidInput($reason),
                $status === 404 => Failure::unavailable('The sidecar is older than the library and cannot run its calls: update the sidecar'),
                default => Failure::unavailable("The sidecar does not accept the connection: $reason"),
            };
        }
        $this->connection = $connection;
        $this->definitions = new Definitions();
    }

    /**
     * Returns whether this process can use the connection: the connection is open, and no other
     * process opened it (a child process must not use its parent's connection).
     */
    public function isOpen(): bool
    {
        if ($this->isClosed || $this->connection->isInherited()) {
            return false;
        }
        $endTime = Deadline::now() + self::MAX_WAIT_INTERVAL;
        try {
            while (Deadline::now() < $endTime && ($line = $this->connection->readLine(0.0, Response::MAX_BODY_BYTES)) !== null) {
                $this->route($line);
            }
        } catch (TransportException) {
            $this->close();
        }
        return !$this->isClosed;
    }

    public function close(): void
    {
        $this->isClosed = true;
        $this->connection->close();
    }

    /**
     * Sends the request to run calls, with the changes to the registry since the previous request.
     *
     * @param array<string, mixed> $params
     *
     * @return int the ID of the execution
     *
     * @throws \Pillion\Exception\InvalidInputException when the request is too large
     * @throws TransportException                       when the connection is lost
     */
    public function request(ToolEntries $entries, array $params): int
    {
        $id = ++$this->lastId;
        $line = MessageEncoder::encode([
            'id' => $id,
            'method' => 'tools/execute',
            'params' => $params + $this->definitions->findChanges($entries),
        ]);
        if (strlen($line) > Connection::MAX_LINE_LEN) {
            throw Failure::invalidInput(sprintf('The calls and the definitions of their tools have %d bytes; the limit is %d', strlen($line), Connection::MAX_LINE_LEN));
        }
        $this->inboxes[$id] = [];
        $this->connection->send($line);
        $this->definitions->markSent($entries);
        return $id;
    }

    /** Makes the next request send all definitions again, because the sidecar rejected a definition. */
    public function rejectDefinitions(): void
    {
        $this->definitions->reset();
    }

    /**
     * Returns the next message of an execution.
     *
     * @throws \Pillion\Exception\TimeoutException when the sidecar sends no message within the
     *     maximum time
     * @throws TransportException                  when the connection is lost or a message is invalid
     */
    public function nextMessage(int $executionId): \stdClass
    {
        $endTime = Deadline::now() + $this->silenceTimeout;
        while (($message = array_shift($this->inboxes[$executionId])) === null) {
            if ($this->isClosed) {
                throw new ConnectionLostException('The sidecar closed the connection');
            }
            $remainingSeconds = $endTime - Deadline::now();
            if ($remainingSeconds <= 0) {
                throw Failure::timeout(sprintf('The sidecar did not respond within %.1Fs', $this->silenceTimeout));
            }
            $line = $this->connection->readLine(min($remainingSeconds, self::MAX_WAIT_INTERVAL), Response::MAX_BODY_BYTES);
            if ($line !== null) {
                $this->route($line);
            }
        }
        return $message;
    }

    /**
     * Sends the response to a request of the sidecar.
     *
     * @param string $result JSON
     *
     * @throws ConnectionLostException also in a child process that a PHP tool forked
     */
    public function respond(int $id, string $result): void
    {
        if ($this->connection->isInherited()) {
            throw new ConnectionLostException('The process was forked inside a tool: only the parent process can return the result of the tool');
        }
        $this->connection->send("{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}\n");
    }

    /** Removes the inbox of an execution. Cancels a running execution. */
    public function endExecution(int $executionId, bool $isRunning): void
    {
        unset($this->inboxes[$executionId]);
        if ($isRunning && !$this->isClosed && !$this->connection->isInherited()) {
            try {
                $this->connection->send(MessageEncoder::encode(['method' => 'notifications/cancelled', 'params' => ['requestId' => $executionId]]));
            } catch (ConnectionLostException) {
                $this->close();
            }
        }
    }

    /** @throws TransportException when the message is invalid */
    private function route(string $line): void
    {
        $message = Connection::decode($line);
        if (is_array($message)) {
            // Only the arguments and the result of a message can contain member names that are
            // invalid in a PHP object. The arguments and the result are removed, so that the rest
            // of the message can become an object.
            $params = array_diff_key((array) ($message['params'] ?? []), ['arguments' => null, 'result' => null]);
            $message = (object) (['params' => (object) ($params + ['hasInvalidNames' => true])] + $message);
        }
        $executionId = isset($message->method) ? $message->params->execution ?? null : $message->id ?? null;
        if (is_int($executionId) && isset($this->inboxes[$executionId])) {
            $this->inboxes[$executionId][] = $message;
        } elseif (isset($message->method, $message->id) && is_int($message->id)) {
            // The sidecar's request belongs to an execution that was cancelled, so the response is
            // empty.
            $this->respond($message->id, '{}');
        }
    }
}
