<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\Trouble;
use Pillion\ToolCall;
use Pillion\ToolResult;

/**
 * Runs calls at the sidecar, in as few requests as the sidecar accepts. A refused call does not prevent
 * the other calls from running. When the sidecar does not answer a request, the remaining calls are not sent.
 *
 * @internal
 */
final class Batch
{
    /** Maximum number of calls in one request: the sidecar's default for `http.max_batch_calls`. */
    private const MAX_CALLS = 100;

    /**
     * Maximum size of the calls in one request, in bytes: the sidecar's default for `http.max_body_bytes`, less
     * the rest of the body. A single call may be larger, because the sidecar may be configured to accept larger
     * bodies.
     */
    private const MAX_BYTES = 1024 * 1024 - 64;

    /**
     * Maximum depth of arguments that are sent as JSON; deeper arguments are sent as a string of JSON. The sidecar
     * accepts bodies of at most 127 levels, and the arguments begin at the fourth level.
     */
    private const MAX_DEPTH = 120;

    /** @var array<int, string> each call as JSON, by index */
    private array $encoded = [];
    /** @var array<int, ToolResult> results by index */
    private array $results = [];
    private ?PillionException $failure = null;
    /** Whether at least one call ran or was refused individually. */
    private bool $hasOutcome = false;
    /** The error of the first request that the sidecar did not answer. */
    private ?PillionException $silence = null;

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
        foreach ($calls as $place => $call) {
            try {
                $this->encoded[$place] = self::encode($call);
            } catch (InvalidInputException $e) {
                $this->fail([$place], $e);
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
     * @throws PillionException when no call ran and none was refused individually
     */
    public static function run(SidecarApi $api, array $calls, string $mode, Context $context): array
    {
        $batch = new self($api, $calls, $mode, $context);
        foreach ($calls === [] || $batch->encoded !== [] ? $batch->portions() : [] as $places) {
            $batch->send($places);
        }
        if (!$batch->hasOutcome && $batch->failure !== null) {
            throw $batch->failure;
        }
        ksort($batch->results);
        return $batch->results;
    }

    /** @throws InvalidInputException for arguments that cannot be converted to JSON */
    private static function encode(ToolCall $call): string
    {
        $arguments = is_array($call->arguments) ? Json::encodeArguments($call->arguments, 'argument $arguments') : Json::encode($call->arguments, 'argument $arguments');
        if (substr_count($arguments, '[') + substr_count($arguments, '{') > self::MAX_DEPTH) {
            json_decode($arguments, true, self::MAX_DEPTH);
            $arguments = json_last_error() === JSON_ERROR_DEPTH ? Json::encode($arguments) : $arguments;
        }
        return '{"id":' . Json::encode($call->id) . ',"name":' . Json::encode($call->name) . ",\"arguments\":$arguments}";
    }

    /** @return list<list<int>> indices of the calls of each request, for a sidecar with the default limits; one empty list without calls */
    private function portions(): array
    {
        $portions = [];
        $places = [];
        $bytes = 0;
        foreach ($this->encoded as $place => $call) {
            $size = strlen($call) + 1;
            if ($places !== [] && (count($places) === self::MAX_CALLS || $bytes + $size > self::MAX_BYTES)) {
                $portions[] = $places;
                $places = [];
                $bytes = 0;
            }
            $places[] = $place;
            $bytes += $size;
        }
        return [...$portions, $places];
    }

    /**
     * Sends calls, and halves the request when the sidecar refuses it.
     *
     * @param list<int>   $places
     * @param ?string     $refusal why the sidecar refused the larger request that contained these calls
     *
     * @return bool false if the sidecar refuses this half with an equal error, so that size is not the cause
     */
    private function send(array $places, ?string $refusal = null): bool
    {
        if ($this->silence !== null) {
            $this->fail($places, Failure::unavailable("The call was not sent: {$this->silence->getMessage()}"));
            return true;
        }
        $names = array_map(fn (int $place): string => $this->calls[$place]->name, $places);
        $calls = array_map(fn (int $place): string => $this->encoded[$place], $places);
        $part = count($places) === count($this->encoded) || $places === [] ? null : "$places[0]-" . ($places[count($places) - 1] + 1);
        try {
            $answer = $this->api->batch($calls, $names, $this->mode, $this->context, $part);
        } catch (PillionException $e) {
            $this->silence = Trouble::isWithoutAnswer($e) ? $e : null;
            $this->fail($places, $e);
            return true;
        }
        if (is_array($answer)) {
            foreach ($places as $index => $place) {
                $call = $this->calls[$place];
                $this->results[$place] = $answer[$index]->toResult($call->id, $call->name);
            }
            $this->hasOutcome = true;
            return true;
        }
        $said = $answer->failure->getMessage();
        if (!$answer->isTooLarge() && $said === $refusal) {
            $this->fail($places, $answer->failure);
            return false;
        }
        if (count($places) < 2 || !$answer->mayBeTooMany()) {
            $this->fail($places, $answer->failure);
            $this->hasOutcome = $this->hasOutcome || (count($places) < 2 && $answer->isTooLarge());
            return true;
        }
        $middle = intdiv(count($places), 2);
        if (!$this->send(array_slice($places, 0, $middle), $said)) {
            $this->fail($places, $answer->failure);
            return true;
        }
        $this->send(array_slice($places, $middle), $said);
        return true;
    }

    /** @param list<int> $places */
    private function fail(array $places, PillionException $e): void
    {
        $this->failure ??= $e;
        foreach ($places as $place) {
            $call = $this->calls[$place];
            $this->results[$place] = new ToolResult($call->id, $call->name, null, false, $e->getMessage(), $e->errorCode);
        }
    }
}
