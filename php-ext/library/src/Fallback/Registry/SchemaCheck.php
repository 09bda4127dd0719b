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
 * Lets the sidecar check the schemas of tools when they are registered. If the sidecar does not answer, the
 * first call of an executor reports an invalid schema.
 *
 * @internal
 */
final class SchemaCheck
{
    private const TIMEOUT = 5.0;
    /** How long schemas are not checked after the sidecar did not respond, in seconds. */
    private const PAUSE = 5.0;

    private const TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'];

    /** @var array<string, float> the ends of the pauses by socket */
    private static array $pausedUntil = [];

    /**
     * @param list<ToolEntry> $entries
     *
     * @throws InvalidInputException naming the first tool with an invalid schema
     */
    public static function check(array $entries): void
    {
        $tools = [];
        foreach ($entries as $entry) {
            $schema = InputSchema::tree($entry->definition);
            // Schemas of MCP tools and built-in tools are not checked: the MCP server validates the
            // arguments, and the sidecar has the built-in tools.
            if ($entry->origin === null && !$entry->tool instanceof NativeTool && !self::isPlain($schema)) {
                $tools[] = ['name' => $entry->definition->name, 'inputSchema' => $schema];
            }
        }
        $socket = SocketPath::default();
        if ($tools === [] || Deadline::now() < (self::$pausedUntil[$socket] ?? 0.0)) {
            return;
        }
        try {
            (new SidecarApi($socket, self::TIMEOUT))->checkSchemas($tools);
        } catch (InvalidInputException $e) {
            throw $e;
        } catch (PillionException) {
            self::$pausedUntil[$socket] = Deadline::now() + self::PAUSE;
        }
    }

    /**
     * Returns whether a schema is certainly valid, because it has only types, texts and values. Most tools have such a
     * schema, and need no request.
     */
    private static function isPlain(mixed $schema): bool
    {
        if (!$schema instanceof \stdClass) {
            return false;
        }
        foreach (get_object_vars($schema) as $keyword => $value) {
            $isPlain = match ((string) $keyword) {
                'type' => in_array($value, self::TYPES, true),
                'description', 'title' => is_string($value),
                'default' => true,
                'enum' => is_array($value),
                'required' => is_array($value) && array_filter($value, is_string(...)) === $value && array_unique($value) === $value,
                'items' => self::isPlain($value),
                'properties' => $value instanceof \stdClass && !in_array(false, array_map(self::isPlain(...), get_object_vars($value)), true),
                default => false,
            };
            if (!$isPlain) {
                return false;
            }
        }
        return true;
    }
}
