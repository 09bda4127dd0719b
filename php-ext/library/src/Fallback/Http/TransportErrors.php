<?php

declare(strict_types=1);

namespace Pillion\Fallback\Http;

use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Fallback\Failure;

/**
 * Creates exceptions for failed requests to the sidecar, with the same messages as the engine's client.
 *
 * @internal
 */
final class TransportErrors
{
    private const ENOENT = 2;
    private const ECONNREFUSED = 111;
    /** Maximum number of tools that an error names, and maximum length of each name in characters. */
    private const MAX_NAMES = 3;
    private const MAX_NAME_LEN = 128;

    public static function connectFailed(string $path, int $errno): UnavailableException
    {
        if ($errno === self::ENOENT || $errno === self::ECONNREFUSED) {
            return Failure::unavailable("The sidecar is not running: no process listens on $path");
        }
        $reason = function_exists('posix_strerror') ? posix_strerror($errno) . " (os error $errno)" : "os error $errno";
        return Failure::unavailable("Cannot connect to the sidecar at $path: $reason");
    }

    public static function timedOut(Deadline $deadline): TimeoutException
    {
        return Failure::timeout(sprintf('The sidecar did not respond within %.1Fs', $deadline->seconds));
    }

    /**
     * Returns the error of a request whose tools took too long: a slow tool does not mean that the sidecar is
     * unreachable.
     *
     * @param list<string> $tools
     */
    public static function toolsTimedOut(array $tools, float $seconds): TimeoutException
    {
        $quote = static fn (string $name): string => preg_match('/^.{0,' . self::MAX_NAME_LEN . '}/us', $name, $start) === 1 ? "'$start[0]'" : "''";
        $quoted = array_map($quote, array_values(array_unique($tools)));
        $more = count($quoted) - self::MAX_NAMES;
        $quoted = array_slice($quoted, 0, self::MAX_NAMES);
        if ($more > 0) {
            $quoted[] = "$more more";
        }
        $last = array_pop($quoted);
        $subject = $quoted === [] ? "Tool $last" : 'The tools ' . implode(', ', $quoted) . " and $last";
        return Failure::timeout(sprintf('%s returned no result within %.1Fs', $subject, $seconds));
    }

    public static function connectionClosed(string $reason): ConnectionClosedException
    {
        return Failure::connectionClosed("The sidecar closed the connection before it sent a response: $reason");
    }

    /** Returns whether the sidecar did not answer at all, so that it would not answer another request either. */
    public static function isUnanswered(PillionException $e): bool
    {
        return $e instanceof TimeoutException
            || $e instanceof UnavailableException
            || $e instanceof ConnectionClosedException;
    }

    public static function responseTooLong(): TransportException
    {
        return Failure::transport('The sidecar\'s response is longer than ' . Response::MAX_BYTES . ' bytes');
    }

    public static function invalidHttp(string $reason): TransportException
    {
        return Failure::transport("The sidecar's response is not valid HTTP: $reason");
    }
}
