<?php

declare(strict_types=1);

namespace Pillion\Fallback;

use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\Deadline;
use Pillion\MCPServerTool;
use Pillion\NativeTool;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The tools that run in the sidecar.
 *
 * @internal
 */
final class SidecarTools
{
    /** How long the sidecar's list of tools is cached, in seconds. */
    private const LIST_TTL = 5.0;

    /** Timeout of the request for the list, in seconds. */
    private const LIST_TIMEOUT = 5.0;

    /** @var array<string, array{float, list<string>}> expiry time and tool names, by socket and category */
    private static array $lists = [];

    /**
     * Returns whether the sidecar offers a tool with this name and category; false if the sidecar does not
     * answer.
     */
    public static function has(ToolDefinition $definition): bool
    {
        $socket = SocketPath::default();
        [$expiresAt, $names] = self::$lists["$socket\n$definition->category"] ?? [0.0, []];
        if (Deadline::now() >= $expiresAt) {
            try {
                $list = (new SidecarApi($socket, self::LIST_TIMEOUT))->list('tools', $definition->category);
                $names = array_map(static fn (\stdClass $tool): string => (string) ($tool->name ?? ''), $list->tools);
            } catch (PillionException) {
                $names = [];
            }
            self::$lists["$socket\n$definition->category"] = [Deadline::now() + self::LIST_TTL, $names];
        }
        return in_array($definition->name, $names, true);
    }

    /** Returns the sidecar's name of a tool; null for a tool that does not run in the sidecar. */
    public static function sidecarNameOf(ToolInterface $tool): ?string
    {
        return match (true) {
            $tool instanceof NativeTool => $tool->getName(),
            $tool instanceof MCPServerTool => \Closure::bind(
                static fn (MCPServerTool $tool): string => $tool->sidecarName,
                null,
                MCPServerTool::class,
            )($tool),
            default => null,
        };
    }

    /**
     * Runs a single tool with all checks of an executor.
     *
     * @param array<array-key, mixed> $arguments
     */
    public static function run(ToolInterface $tool, array $arguments, string $toolCallId): ToolResult
    {
        $registry = new ToolRegistry();
        $registry->register($tool);
        return $registry->execute($tool->getName(), $arguments, $toolCallId);
    }
}
