<?php

declare(strict_types=1);

namespace Pillion\Fallback\Registry;

use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\SidecarApi;
use Pillion\Fallback\SocketPath;
use Pillion\NativeTool;

/**
 * When tools are registered, sends their schemas to the sidecar, which validates the schemas. If
 * the sidecar does not respond, an invalid schema is reported by the first call of an executor
 * instead.
 *
 * @internal
 */
final class SchemaCheck
{
    private const TIMEOUT = 5.0;
    /** Time in seconds during which schemas are not checked after the sidecar did not respond. */
    private const RECHECK_INTERVAL = 5.0;

    private const TYPE_NAMES = ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'];

    /** @var array<string, float> the times until which schemas are not checked, by socket */
    private static array $uncheckedUntil = [];

    /**
     * @param list<ToolEntry> $entries
     *
     * @throws InvalidInputException naming the first tool with an invalid schema
     */
    public static function check(array $entries): void
    {
        $tools = [];
        foreach ($entries as $entry) {
            $schema = InputSchema::toTree($entry->definition);
            // Schemas of MCP tools and built-in tools are not checked: the MCP server validates the
            // arguments, and the sidecar has the built-in tools.
            if ($entry->origin === null && !$entry->tool instanceof NativeTool && !self::isCertainlyValid($schema)) {
                $tools[] = ['name' => $entry->definition->name, 'inputSchema' => $schema];
            }
        }
        $socket = SocketPath::default();
        if ($tools === [] || Deadline::now() < (self::$uncheckedUntil[$socket] ?? 0.0)) {
            return;
        }
        try {
            (new SidecarApi($socket, self::TIMEOUT))->checkSchemas($tools);
        } catch (InvalidInputException $exception) {
            throw $exception;
        } catch (PillionException) {
            self::$uncheckedUntil[$socket] = Deadline::now() + self::RECHECK_INTERVAL;
        }
    }

    /**
     * Returns whether a schema is certainly valid, because it contains only simple keywords such as
     * `type`, `description` and `default`. Most tools have such a schema, for which no request to
     * the sidecar is needed.
     */
    private static function isCertainlyValid(mixed $schema): bool
    {
        if (!$schema instanceof \stdClass) {
            return false;
        }
        foreach (get_object_vars($schema) as $keyword => $value) {
            $isValidKeyword = match ((string) $keyword) {
                'type' => in_array($value, self::TYPE_NAMES, true),
                'description', 'title' => is_string($value),
                'default' => true,
                'enum' => is_array($value),
                'required' => is_array($value) && array_filter($value, is_string(...)) === $value && array_unique($value) === $value,
                'items' => self::isCertainlyValid($value),
                'properties' => $value instanceof \stdClass && !in_array(false, array_map(self::isCertainlyValid(...), get_object_vars($value)), true),
                default => false,
            };
            if (!$isValidKeyword) {
                return false;
            }
        }
        return true;
    }
}
