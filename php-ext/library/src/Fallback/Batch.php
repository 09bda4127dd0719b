<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\TransportErrors;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Runs calls in the sidecar, in as few requests as the sidecar accepts. A rejected call does not
 * prevent the other calls from running. If the sidecar does not respond to a request, the remaining
 * calls are not sent.
 *
 * @internal
 */
final class Batch
{
    /** Maximum number of calls in one request: the sidecar's default for `http.max_batch_calls`. */
    private const MAX_CALLS_PER_REQUEST = 100;

    /**
     * Maximum size of the calls in one request, in bytes: the sidecar's default for
     * `http.max_body_bytes`, minus the size of the other members of the body. A single call may be
     * larger, because the sidecar may be configured to accept larger bodies.
     */
    private const MAX_REQUEST_BYTES = 1024 * 1024 - 64;

    /**
     * Maximum nesting depth of arguments that are sent as a JSON value; arguments that nest deeper
     * are sent as a string that contains JSON. The sidecar accepts bodies of at most 127 levels,
     * and the arguments begin at the fourth level.
     */
    private const MAX_DEPTH = 120;

    /** @var array<int, string> each call as JSON, by index */
    private array $encodedCalls = [];
    /** @var array<int, ToolResult> results by index */
    private array $results = [];
    private ?PillionException $failure = null;
    /** Whether at least one call has run or was rejected individually. */
    private bool $hasOutcome = false;
    /** The error of the first request to which the sidecar did not respond. */
    private ?PillionException $unansweredError = null;

    /**
     * @param list<ToolCall>          $calls
     * @param 'parallel'|'sequential' $mode
     */
    private function __construct(
        private readonly SidecarApi $api,
        private readonly array $calls,
        private readonly string $mode,
        private readonly Context $context,
    ) {
        foreach ($calls as $index => $call) {
            try {
                $this->encodedCalls[$index] = self::encodeCall($call);
            } catch (InvalidInputException $exception) {
                $this->fail([$index], $exception);
                $this->hasOutcome = true;
            }
        }
    }

    /**
     * @param list<ToolCall>          $calls
     * @param 'parallel'|'sequential' $mode
     *
     * @return list<ToolResult> in the order of the calls
     *
     * @throws PillionException when no call ran and none was rejected individually
     */
    public static function run(SidecarApi $api, array $calls, string $mode, Context $context): array
    {
        $batch = new self($api, $calls, $mode, $context);
        foreach ($calls === [] || $batch->encodedCalls !== [] ? $batch->groupByRequest() : [] as $indices) {
            $batch->send($indices);
        }
        if (!$batch->hasOutcome && $batch->failure !== null) {
            throw $batch->failure;
        }
        ksort($batch->results);
        return $batch->results;
    }

    /** @throws InvalidInputException for arguments that cannot be converted to JSON */
    private static function encodeCall(ToolCall $call): string
    {
        $arguments = is_array($call->arguments) ? Json::encodeArguments($call->arguments, 'argument $arguments') : Json::encode($call->arguments, 'argument $arguments');
        if (substr_count($arguments, '[') + substr_count($arguments, '{') > self::MAX_DEPTH) {
            json_decode($arguments, true, self::MAX_DEPTH);
            $arguments = json_last_error() === JSON_ERROR_DEPTH ? Json::encode($arguments) : $arguments;
        }
        return '{"id":' . Json::encode($call->id) . ',"name":' . Json::encode($call->name) . ",\"arguments\":$arguments}";
    }

    /**
     * @return list<list<int>> the indices of the calls of each request, for a sidecar with the default limits;
     *                         `[[]]` if there are no calls
     */
    private function groupByRequest(): array
    {
        $requests = [];
        $indices = [];
        $requestBytes = 0;
        foreach ($this->encodedCalls as $index => $call) {
            $callBytes = strlen($call) + 1;
            if ($indices !== [] && (count($indices) === self::MAX_CALLS_PER_REQUEST || $requestBytes + $callBytes > self::MAX_REQUEST_BYTES)) {
                $requests[] = $indices;
                $indices = [];
                $requestBytes = 0;
            }
            $indices[] = $index;
            $requestBytes += $callBytes;
        }
        return [...$requests, $indices];
    }

    /**
     * Sends calls. If the sidecar rejects the request, sends each half of the calls in a separate
     * request.
     *
     * @param list<int> $indices
     * @param ?string   $previousMessage why the sidecar rejected the larger request that contained these calls
     *
     * @return bool false if the sidecar rejects the calls with the message `$previousMessage`, which shows that the
     *              size of the request is not the cause
     */
    private function send(array $indices, ?string $previousMessage = null): bool
    {
        if ($this->unansweredError !== null) {
            $this->fail($indices, Failure::unavailable("The call was not sent: {$this->unansweredError->getMessage()}"));
            return true;
        }
        $toolNames = array_map(fn (int $index): string => $this->calls[$index]->name, $indices);
        $encodedCalls = array_map(fn (int $index): string => $this->encodedCalls[$index], $indices);
        $indexRange = count($indices) === count($this->encodedCalls) || $indices === [] ? null : "$indices[0]-" . ($indices[count($indices) - 1] + 1);
        try {
            $response = $this->api->executeBatch($encodedCalls, $toolNames, $this->mode, $this->context, $indexRange);
        } catch (PillionException $exception) {
            $this->unansweredError = TransportErrors::isUnanswered($exception) ? $exception : null;
            $this->fail($indices, $exception);
            return true;
        }
        if (is_array($response)) {
            foreach ($indices as $position => $index) {
                $call = $this->calls[$index];
                $this->results[$index] = $response[$position]->toResult($call->id, $call->name);
            }
            $this->hasOutcome = true;
            return true;
        }
        $message = $response->exception->getMessage();
        if (!$response->isTooLarge() && $message === $previousMessage) {
            $this->fail($indices, $response->exception);
            return false;
        }
        if (count($indices) < 2 || !$response->mayHaveTooManyCalls()) {
            $this->fail($indices, $response->exception);
            $this->hasOutcome = $this->hasOutcome || (count($indices) < 2 && $response->isTooLarge());
            return true;
        }
        $middleIndex = intdiv(count($indices), 2);
        if (!$this->send(array_slice($indices, 0, $middleIndex), $message)) {
            $this->fail($indices, $response->exception);
            return true;
        }
        $this->send(array_slice($indices, $middleIndex), $message);
        return true;
    }

    /** @param list<int> $indices */
    private function fail(array $indices, PillionException $exception): void
    {
        $this->failure ??= $exception;
        foreach ($indices as $index) {
            $call = $this->calls[$index];
            $this->results[$index] = new ToolResult($call->id, $call->name, null, false, $exception->getMessage(), $exception->errorCode);
        }
    }
}
