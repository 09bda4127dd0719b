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
    /** Maximum number of tool names in an error message. */
    private const MAX_SHOWN_NAMES = 3;
    /** Maximum length of a tool name in an error message, in characters. */
    private const MAX_NAME_LEN = 128;

    public static function connectFailure(string $socketPath, int $errno): UnavailableException
    {
        if ($errno === self::ENOENT || $errno === self::ECONNREFUSED) {
            return Failure::unavailable("The sidecar is not running: no process listens on $socketPath");
        }
        $reason = function_exists('posix_strerror') ? posix_strerror($errno) . " (os error $errno)" : "os error $errno";
        return Failure::unavailable("Cannot connect to the sidecar at $socketPath: $reason");
    }

    public static function timeout(Deadline $deadline): TimeoutException
    {
        return Failure::timeout(sprintf('The sidecar did not respond within %.1Fs', $deadline->seconds));
    }

    /**
     * Returns the error of a request whose tools exceeded the timeout. The error names the tools,
     * so that the reader does not look for a fault in the sidecar.
     *
     * @param list<string> $toolNames
     */
    public static function toolTimeout(array $toolNames, float $seconds): TimeoutException
    {
        $quote = static fn (string $name): string => preg_match('/^.{0,' . self::MAX_NAME_LEN . '}/us', $name, $matches) === 1 ? "'$matches[0]'" : "''";
        $quotedNames = array_map($quote, array_values(array_unique($toolNames)));
        $unnamedCount = count($quotedNames) - self::MAX_SHOWN_NAMES;
        $quotedNames = array_slice($quotedNames, 0, self::MAX_SHOWN_NAMES);
        if ($unnamedCount > 0) {
            $quotedNames[] = "$unnamedCount more";
        }
        $lastName = array_pop($quotedNames);
        $subject = $quotedNames === [] ? "Tool $lastName" : 'The tools ' . implode(', ', $quotedNames) . " and $lastName";
        return Failure::timeout(sprintf('%s returned no result within %.1Fs', $subject, $seconds));
    }

    public static function connectionClosed(string $reason): ConnectionClosedException
    {
        return Failure::connectionClosed("The sidecar closed the connection before it sent a response: $reason");
    }

    /**
     * Returns whether the sidecar did not respond at all and would probably not respond to another
     * request.
     */
    public static function isUnanswered(PillionException $exception): bool
    {
        return $exception instanceof TimeoutException
            || $exception instanceof UnavailableException
            || $exception instanceof ConnectionClosedException;
    }

    public static function responseTooLong(): TransportException
    {
        return Failure::transport('The sidecar\'s response is longer than ' . Response::MAX_BODY_BYTES . ' bytes');
    }

    public static function invalidHttp(string $reason): TransportException
    {
        return Failure::transport("The sidecar's response is not valid HTTP: $reason");
    }
}
